"""An agent process in a testbed: a real agent that also stops when the testbed ends.

The testbed runs it as `python -m sottovoce_lab.testbed.process CONFIG SEED [FAULT …]`, with a pipe as its standard
input. Each line of input lists the node ids of the peers that the agent cannot reach from then on, and an empty line
ends the partition. Only this module may run a noise-free agent, and only on loopback in a fleet created by a testbed.
"""

import asyncio
import os
import sys
import tomllib
from pathlib import Path

from sottovoce.algorithms.family import required_budget
from sottovoce.cli.outcome import run_to_exit_code
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import ConfigError, ExitCode
from sottovoce.node.assemble import Variant, assemble, run_agent
from sottovoce.node.runtime import Agent
from sottovoce.ops import log_to_stderr

from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.faulty_transport import FaultyTransport, Reachability

FLEET_PREFIX = "testbed-"


def main(arguments: list[str]) -> int:
    """Run the agent, and return its exit code."""
    return run_to_exit_code(lambda: _run_agent(*arguments))


def _run_agent(path: str, seed: str, *specifications: str) -> ExitCode:
    config = config_from_tables(tomllib.loads(Path(path).read_text()), path)
    log_to_stderr(config.agent.log_level, config.agent.log_format)
    faults = Faults.parse(specifications)
    reach = Reachability()
    variant = Variant()
    if faults.affects_messages:
        variant = Variant(transport=lambda inner: FaultyTransport(inner, faults, int(seed), reach))
    agent = assemble(config, variant)
    _allow_noiseless(config, agent)
    return asyncio.run(_run(agent, reach))


def _allow_noiseless(config: AgentConfig, agent: Agent) -> None:
    transport = config.transport
    on_loopback = transport.listen.startswith("127.0.0.1:") and ("mqtt" not in transport.use or transport.mqtt.is_local)
    is_testbed_fleet = agent.identity.fleet.startswith(FLEET_PREFIX) and on_loopback
    if required_budget(config).epsilon is None and not is_testbed_fleet:
        raise ConfigError(
            'privacy.epsilon = inf and data.ranges = "training" are allowed only in a testbed\'s own fleet on 127.0.0.1'
        )


async def _run(agent: Agent, reach: Reachability) -> ExitCode:
    loop = asyncio.get_running_loop()
    unread = b""

    def read_input() -> None:
        nonlocal unread
        if not (received := os.read(0, 2**16)):
            agent.stop()
        *lines, unread = (unread + received).split(b"\n")
        if lines:
            reach.unreachable_peers = frozenset(lines[-1].decode().split())

    loop.add_reader(sys.stdin, read_input)
    try:
        return await run_agent(agent)
    finally:
        loop.remove_reader(sys.stdin)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
