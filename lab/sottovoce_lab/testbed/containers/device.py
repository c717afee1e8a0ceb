"""Run an agent in a container: claim a device directory, join with the bundle in it, and run until stopped."""

import asyncio
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import tomlkit
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, load
from sottovoce.errors import ExitCode
from sottovoce.node.assemble import Variant, assemble, run_agent
from sottovoce.node.state_directory import Join
from sottovoce.ops import log_to_stderr

from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.containers.places import Place, claim, wait_until_ready
from sottovoce_lab.testbed.faulty_transport import FaultyTransport, Reachability

_TIMEOUT_SECONDS = 300.0


def run(root: Path, faults: Sequence[str], owner: str, address: str) -> ExitCode:
    """Run this container's agent until it stops, and return its exit code.

    Args:
        root: the root directory of the places.
        faults: the `--fault` specifications for the agent's messages.
        owner: this container's identifier, unchanged across its restarts and unique among containers.
        address: the agent's address since the container last started.

    Raises:
        SottovoceError: if no place is free, or a file in the place is invalid.
    """
    place = claim(wait_until_ready(root, _TIMEOUT_SECONDS), owner)
    place.faults.write_text("".join(f"{specification}\n" for specification in faults))
    config = join_and_configure(place, address)
    log_to_stderr(config.agent.log_level, config.agent.log_format)
    _link_state(place)
    return asyncio.run(run_agent(assemble(config, build_variant(faults, place.index))))


def join_and_configure(place: Place, address: str) -> AgentConfig:
    """Join the fleet unless the device has already joined, then write and load the configuration for this run.

    Args:
        place: the device's place.
        address: the current address of the device's container.
    """
    tables = tomllib.loads(place.template.read_text())
    if (listen := tables["transport"].get("listen")) is not None:  # with MQTT alone, there is no listen address
        tables["transport"]["announce"] = f"{address}:{listen.rpartition(':')[2]}"
    if not place.state.exists():
        budget = required_budget(load(place.template))
        Join(place.state, lambda _: budget).with_bundle(place.bundle)
    place.config.write_text(tomlkit.dumps(tables))
    return load(place.config)


def build_variant(faults: Sequence[str], seed: int) -> Variant:
    """Return an agent variant that injects these faults into the agent's messages."""
    parsed = Faults.parse(faults)
    if not parsed.affects_messages:
        return Variant()
    return Variant(transport=lambda inner: FaultyTransport(inner, parsed, seed, Reachability()))


def device_link() -> Path:
    """Return the path of the symbolic link through which the container's health check finds the state directory."""
    return Path(tempfile.gettempdir(), "device")


def _link_state(place: Place) -> None:
    link = device_link()
    link.unlink(missing_ok=True)
    link.symlink_to(place.state)
