"""Wrapper around a plug-in's transport that checks every call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer, Receive, Transport
from sottovoce.plugins import Plugin, await_guarded, guarded

_START_SECONDS = 10.0
_OVERTIME = 1.0
_METHODS = ("reaches", "start", "deliver", "listener", "stop")


class GuardedTransport:
    """An implementation of sottovoce.net.transports.Transport that wraps a plug-in's transport.

    Network errors become failed deliveries, which are retried. Any other exception counts as a defect in the plug-in's
    package.

    Args:
        plugin: the plug-in that provides the transport.
        make: function that creates the transport.

    Raises:
        PluginError: if the transport cannot be created or lacks a required member.
    """

    def __init__(self, plugin: Plugin, make: Callable[[], Transport]) -> None:
        self._plugin = plugin
        with guarded(plugin, "make()"):
            self._inner = make()
            self._largest: object = getattr(self._inner, "largest", None)
        for name in _METHODS:
            if not callable(getattr(self._inner, name, None)):
                raise plugin.error(f"make() returned an object of type {type(self._inner).__name__} without {name}()")
        if not isinstance(self._largest, int) or self._largest < 4096:
            raise plugin.error(f"largest is {self._largest!r}, but must be an integer of at least 4096 (bytes)")

    @property
    def largest(self) -> int:
        """Size in bytes of the largest message that the transport accepts."""
        return self._largest if isinstance(self._largest, int) else 0

    def reaches(self, address: str) -> bool:
        """Return whether the transport can reach this address, which must begin with the plug-in's name and ://."""
        return address.startswith(f"{self._plugin.name}://") and bool(self._call_guarded("reaches()", address))

    async def start(self, receive: Receive) -> None:
        """Listen for messages; see Transport.start."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._await_guarded("start()", self._inner.start(receive))
        except TimeoutError as error:
            raise self._plugin.error(f"start() did not finish within {_START_SECONDS:g} s") from error

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message; see Transport.deliver."""
        prefix = f"peer {peer.id} at {peer.address}"
        try:
            async with asyncio.timeout(timeout + _OVERTIME):
                answer: object = await self._await_guarded("deliver()", self._inner.deliver(peer, message, timeout))
        except TimeoutError as error:
            raise DeliveryFailed("timeout", f"{prefix}: no answer within {timeout:g} s") from error
        except (OSError, EOFError) as error:
            raise DeliveryFailed("unreachable", f"{prefix}: the peer cannot be reached ({error})") from error
        if not isinstance(answer, bytes):
            raise self._plugin.error(f"deliver() returned an object of type {type(answer).__name__}, not bytes")
        return answer

    def listener(self) -> Listener:
        """Return the counters and health of the listening side."""
        result = self._call_guarded("listener()")
        if not isinstance(result, Listener):
            raise self._plugin.error(f"listener() returned an object of type {type(result).__name__}, not Listener")
        return result

    async def stop(self, grace: float) -> None:
        """Stop listening; see Transport.stop. A transport that does not stop in time is abandoned."""
        try:
            async with asyncio.timeout(grace + _OVERTIME):
                await self._await_guarded("stop()", self._inner.stop(grace))
        except (TimeoutError, OSError):
            return

    def _call_guarded(self, call: str, *args: Any) -> object:
        with guarded(self._plugin, call):
            result: object = getattr(self._inner, call.removesuffix("()"))(*args)
        return result

    async def _await_guarded(self, call: str, awaited: Awaitable[Any]) -> Any:
        return await await_guarded(self._plugin, call, awaited, passing=(OSError, EOFError))
