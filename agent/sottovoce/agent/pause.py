"""Stand-in for an agent stopped by a fault: it serves status and metrics, and notifies the service manager."""

import asyncio
import contextlib
import signal
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.agent.control import ControlServer
from sottovoce.agent.faults import Fault
from sottovoce.agent.notify import notify_while_running
from sottovoce.agent.status import SCHEMA
from sottovoce.config import AgentConfig
from sottovoce.errors import ExitCode, SottovoceError
from sottovoce.threads import DEFAULT_THREADS, Threads


class Pause:
    """A pause before the next attempt to run the agent; see ControlTarget.

    Args:
        config: configuration of the agent.
        fault: fault that stopped the agent.
        seconds: length of the pause, in seconds.
    """

    model: NDArray[np.float64] | None = None
    cycle: int = 0

    def __init__(self, config: AgentConfig, fault: Fault, seconds: float) -> None:
        self.config = config
        self.fault = fault
        self._seconds, self._until = seconds, time.monotonic() + seconds
        self._stopping = asyncio.Event()
        self._code: ExitCode | None = None

    async def wait(self) -> ExitCode | None:
        """Wait until the pause has elapsed and return None, or return the exit code if the agent is stopped earlier."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(Threads(DEFAULT_THREADS))
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, lambda: self._end(ExitCode.INTERRUPTED))
        section = self.config.agent
        control = ControlServer(section.state / "agent.sock", self, section.readers_socket)
        async with contextlib.AsyncExitStack() as stack:
            with contextlib.suppress(OSError):  # on a full disk, the socket cannot be created
                await control.start()
                stack.push_async_callback(control.stop)
            if self.config.observe.metrics is not None:
                from sottovoce.agent.observation import serve_fault_observation

                with contextlib.suppress(SottovoceError, OSError):  # the fault itself may be a missing resource
                    await stack.enter_async_context(serve_fault_observation(self.config.observe.address, self.fault))
            thread = stack.enter_context(Threads(1))
            notifier = loop.create_task(notify_while_running(self._stopping, thread, self.fault.summary))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._seconds)
            notifier.cancel()
        return self._code

    def status(self) -> dict[str, Any]:
        """Return the status document, which describes the fault and states the seconds until the next attempt."""
        fault, seconds_left = self.fault, max(0.0, self._until - time.monotonic())
        document = {
            "kind": fault.kind,
            "reason": fault.reason,
            "tries_again_s": seconds_left,
            "needs_a_person": fault.needs_a_person,
        }
        return {"schema": SCHEMA, "state": "needs-a-person" if fault.needs_a_person else "waiting", "fault": document}

    def stop(self) -> None:
        """End the pause, and stop the agent."""
        self._end(ExitCode.DONE)

    async def leave(self) -> dict[str, Any]:
        """Stop without handing over any state."""
        self.stop()
        return {"handed_over": False, "left": f"this device {self.fault.summary}"}

    def _end(self, code: ExitCode) -> None:
        self._code = code
        self._stopping.set()
