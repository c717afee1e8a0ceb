"""Metrics and health checks of an agent, collected on request. This module is imported only if they are configured.

Processor time and memory use depend on the records in a process, and sizes of files and free space on those on a disk.
The latter are published only on this machine, whose users can see them anyway; so are the former, if the vault runs in
this process. The vault's response time is never reported. Metrics are collected at most once a second, however often
they are requested.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol

from sottovoce.errors import ConfigError
from sottovoce.fleet import Trust
from sottovoce.net.page_server import PageServer
from sottovoce.node.core import Action
from sottovoce.node.faults import Fault
from sottovoce.node.metric_values import Values, agent_values, fault_values, transport_problems
from sottovoce.node.status import StatusSource
from sottovoce.ops.health import health
from sottovoce.ops.machine import measure_machine
from sottovoce.ops.page import Page

_CORE_SECONDS = 5.0
_CACHE_SECONDS = 1.0


class ObservedAgent(StatusSource, Protocol):
    """The agent interface from which metrics and health are read."""

    trust: Trust

    def run_serially(self, operation: Callable[[], list[Action]]) -> Awaitable[None]:
        """Run an operation on the core; only one operation runs at a time."""
        ...


@asynccontextmanager
async def serve_observation(agent: ObservedAgent) -> AsyncIterator[None]:
    """Serve this agent's metrics and health at the configured address for the duration of the context.

    Raises:
        ConfigError: if a required package is not installed.
        NetworkError: if the address cannot be used.
    """
    cached_until = float("-inf")
    cached_values: Values = {}

    async def metrics() -> Values:
        nonlocal cached_values, cached_until
        if time.monotonic() >= cached_until:
            cached_until = time.monotonic() + _CACHE_SECONDS
            measurements = (
                await asyncio.to_thread(measure_machine, agent.config.agent.state)
                if can_publish_machine(agent)
                else None
            )
            cached_values = agent_values(agent, measurements)
        return cached_values

    async def live() -> dict[str, str]:
        return {"loop": "", "core": await core_problem(agent)}

    async def ready() -> dict[str, str]:
        return readiness(agent)

    async with _serve_pages(agent.config.observe.address, metrics, live, ready):
        yield


@asynccontextmanager
async def serve_fault_observation(address: tuple[str, int], fault: Fault) -> AsyncIterator[None]:
    """Serve metrics and health for an agent that cannot run because of a fault: it is alive but not ready.

    Raises:
        ConfigError, NetworkError: see `serve_observation`.
    """

    async def metrics() -> Values:
        return fault_values(fault)

    async def live() -> dict[str, str]:
        return {"loop": ""}

    async def ready() -> dict[str, str]:
        return {"fault": fault.summary}

    async with _serve_pages(address, metrics, live, ready):
        yield


@asynccontextmanager
async def _serve_pages(
    address: tuple[str, int],
    metrics: Callable[[], Awaitable[Values]],
    live: Callable[[], Awaitable[dict[str, str]]],
    ready: Callable[[], Awaitable[dict[str, str]]],
) -> AsyncIterator[None]:
    try:
        from sottovoce.ops.metrics import page
    except ModuleNotFoundError as error:
        raise ConfigError(
            "observe.metrics requires the package prometheus-client; install sottovoce[metrics], or remove the key"
        ) from error
    started_at = time.monotonic()

    async def metrics_page() -> Page:
        return page({"sottovoce_uptime_seconds": time.monotonic() - started_at, **await metrics()})

    async def liveness_page() -> Page:
        return health(await live())

    async def readiness_page() -> Page:
        return health(await ready())

    page_server = PageServer({"/metrics": metrics_page, "/livez": liveness_page, "/readyz": readiness_page})
    await page_server.start(*address)
    try:
        yield
    finally:
        await page_server.stop()


def can_publish_machine(agent: ObservedAgent) -> bool:
    """Return whether the operating system's measurements of this process may be published."""
    return agent.config.observe.is_local or agent.config.vault.socket is not None


async def core_problem(agent: ObservedAgent, seconds: float = _CORE_SECONDS) -> str:
    """Return what is wrong with the core, or an empty string if it responds in time."""
    try:
        async with asyncio.timeout(seconds):
            await agent.run_serially(list)
    except TimeoutError:
        return f"the core has not responded for {seconds:g} s"
    except RuntimeError:  # the core's thread no longer accepts jobs
        return "the agent is stopping"
    return ""


def readiness(agent: ObservedAgent) -> dict[str, str]:
    """Return, for each component, why it prevents this device from learning with others; empty if it does not."""
    problems = transport_problems(agent)
    is_up = not all(problems.values())
    return {
        "identity": _identity_problem(agent),
        "ledger": "the vault process is not responding" if "vault-process" in agent.waits.current else "",
        "transport": "" if is_up else "; ".join(f"{name}: {trouble}" for name, trouble in problems.items()),
    }


def _identity_problem(agent: ObservedAgent) -> str:
    if datetime.now(UTC) >= agent.identity.not_after:
        return "this device's certificate has expired; run `sottovoce fleet renew`"
    if agent.identity.node_id in agent.trust.revoked:
        return "this device has been revoked by its fleet"
    return ""
