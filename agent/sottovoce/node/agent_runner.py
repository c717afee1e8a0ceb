"""Run an agent and, if configured, serve its metrics; the metrics packages are imported only in that case."""

import asyncio

from sottovoce.concurrency import DEFAULT_THREADS, ThreadPool
from sottovoce.errors import ExitCode
from sottovoce.node.runtime import Agent
from sottovoce.plugins import plugin_errors


async def run(agent: Agent, *, embedded: bool = False) -> ExitCode:
    """Run the agent, and serve its metrics if configured; see Agent.run and observation.serve_observation."""
    if not embedded:
        asyncio.get_running_loop().set_default_executor(ThreadPool(DEFAULT_THREADS))
    with plugin_errors():
        if agent.config.observe.metrics is None:
            return await agent.run(embedded=embedded)
        from sottovoce.node.observation import serve_observation

        async with serve_observation(agent):
            return await agent.run(embedded=embedded)
