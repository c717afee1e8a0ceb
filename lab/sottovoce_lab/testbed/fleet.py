"""A fleet of real processes on loopback, with its own keys from a throw-away fleet CA."""

import contextlib
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from sottovoce.config import AgentConfig, MqttSection
from sottovoce.errors import (
    ConfigError,
    DataError,
    IdentityError,
    InternalError,
    NetworkError,
    PluginError,
    PrivacyError,
    SottovoceError,
)
from sottovoce.fleet import Identity
from sottovoce.node.control import ask
from sottovoce.node.state_directory import state_files
from sottovoce.privacy.vault import Ledger, Spending
from sottovoce_operator.fleet import create_fleet
from sottovoce_operator.fleet.join import join

from sottovoce_lab.simulator import message_faults
from sottovoce_lab.testbed.agent_files import save_records, to_tables
from sottovoce_lab.testbed.broker import TestbedBroker, create_broker
from sottovoce_lab.testbed.isolation import AgentProcess, create_starter
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.process import FLEET_PREFIX

_PROGRAM = "sottovoce_lab.testbed.process"
_PORTS = range(20_000, 32_000)  # below the range that systems use for outgoing connections
_READY_SECONDS = 120.0
_SECONDS_PER_AGENT = 4.0  # time per agent for starting or stopping a large fleet
_STOP_SECONDS = 20.0
_STOPPED = re.compile(r" stopped id=\S+ charges=(\d+)$", re.MULTILINE)
_ERRORS: dict[int, type[SottovoceError]] = {
    error.exit_code: error for error in (ConfigError, DataError, PrivacyError, IdentityError, NetworkError, PluginError)
}


@dataclass(slots=True)
class Member:
    """An agent with its files and, while it runs, its process.

    Attributes:
        name: agent-00, agent-01, …
        identity: the agent's identity.
        state: the agent's state directory.
        process: the agent's process; None before it is first started.
        ready_s: the number of seconds from starting the agent to its first answer; None before that answer.
        is_killed: whether the testbed has killed the agent and not restarted it yet.
        last_status: the agent's last status since it was last started; None before its first answer.
        previous_statuses: the agent's last status before each restart.
    """

    name: str
    identity: Identity
    state: Path
    process: AgentProcess | None = None
    started: float = 0.0
    ready_s: float | None = None
    is_killed: bool = False
    last_status: dict[str, Any] | None = None
    previous_statuses: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ledger(self) -> Path:
        """The agent's ledger file."""
        return state_files(self.state)[1]

    @property
    def config(self) -> Path:
        """The agent's configuration file."""
        return self.state / "agent.toml"

    @property
    def log(self) -> Path:
        """The log file with the agent's output."""
        return self.state / "log"


class ProcessFleet:
    """Builds, starts, kills, restarts and stops the processes in a plan.

    Args:
        plan: the fleet's plan.
        directory: an existing directory that is empty or contained this fleet before.
        program: the module whose `main` runs an agent.
    """

    def __init__(self, plan: Plan, directory: Path, program: str = _PROGRAM) -> None:
        self._plan = plan
        self._program = program
        self._cut_off: frozenset[int] = frozenset()
        self._public = directory.absolute() / "public.npz"
        self.broker: TestbedBroker | None = None
        self._starter = create_starter(plan.options.isolation, directory)
        try:
            self.members = self._build_members(directory)
        except BaseException:
            self._starter.close()
            raise

    @property
    def start_message(self) -> str:
        """The line that a watcher shows at the start of the run."""
        return f"starting {len(self.members)} agent processes"

    def start(self, ready: Callable[[int, int], None]) -> None:
        """Start every agent, and wait until each has answered once. See RunningFleet.start.

        Raises:
            SottovoceError: if an agent ended or did not answer in time.
        """
        if self.broker is not None:
            self.broker.start()
        for index in range(len(self.members)):
            self.launch(index)
        timeout = max(_READY_SECONDS, _SECONDS_PER_AGENT * len(self.members))
        deadline = time.monotonic() + timeout
        while any(member.ready_s is None for member in self.members):
            self.poll()
            ready(sum(member.ready_s is not None for member in self.members), len(self.members))
            if time.monotonic() > deadline:
                silent_agents = [member.name for member in self.members if member.ready_s is None]
                raise NetworkError(f"{', '.join(silent_agents)} did not answer within {timeout:g} s of starting")
            time.sleep(0.02)

    def launch(self, index: int) -> None:
        """Start or restart one agent."""
        member, options = self.members[index], self._plan.options
        if member.last_status is not None:
            member.previous_statuses.append(member.last_status)
            member.last_status = None
        arguments = [str(member.config), str(options.seed + index), *message_faults(options.fault_specs)]
        member.process = self._starter.start(self._program, arguments, member.log)
        member.started, member.ready_s, member.is_killed = time.monotonic(), None, False
        if self._cut_off:
            self._send_unreachable_peers(index)

    def kill(self, index: int) -> None:
        """Kill an agent (kill -9)."""
        member = self.members[index]
        if member.process is not None:
            member.process.send_signal(signal.SIGKILL)
            member.process.wait()
            member.process.close()
            member.is_killed = True

    def cut_off(self, indices: frozenset[int]) -> None:
        """Cut off exactly these agents from all others, until the next call."""
        if indices == self._cut_off:
            return
        self._cut_off = indices
        for index, member in enumerate(self.members):
            if member.process is not None and not member.is_killed:
                self._send_unreachable_peers(index)

    def _send_unreachable_peers(self, index: int) -> None:
        """Send an agent the list of its unreachable peers, in the format that `sottovoce_lab.testbed.process` reads."""
        is_cut_off = index in self._cut_off
        unreachable = [
            peer.identity.node_id for i, peer in enumerate(self.members) if (i in self._cut_off) != is_cut_off
        ]
        process = self.members[index].process
        if process is not None:
            process.write_line(b" ".join(node.encode() for node in unreachable) + b"\n")

    def poll(self) -> None:
        """Query every running agent for its status.

        Raises:
            SottovoceError: if an agent ended without being killed, or no more agents can be started.
        """
        self._starter.check_capacity()
        for member in self.running_members():
            if member.process is not None and (code := member.process.poll()) is not None:
                raise self._exit_error(member, code)
            with contextlib.suppress(NetworkError):
                member.last_status = ask(member.state, "status")
                if member.ready_s is None:
                    member.ready_s = time.monotonic() - member.started

    def running_members(self) -> list[Member]:
        """Return the agents that were started and not killed."""
        return [member for member in self.members if member.process is not None and not member.is_killed]

    def stop(self) -> list[str]:
        """Stop all processes with SIGTERM, kill those that do not end in time, and return the killed agents' names."""
        try:
            return self._stop_agents()
        finally:
            self._starter.close()
            if self.broker is not None:
                self.broker.stop()

    def _stop_agents(self) -> list[str]:
        killed_agents = []
        processes = [(member, member.process) for member in self.members if member.process is not None]
        for _, process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + max(_STOP_SECONDS, _SECONDS_PER_AGENT * len(processes))
        for member, process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed_agents.append(member.name)
            process.close()
        return killed_agents

    def charges_when_stopped(self, member: Member) -> int | None:
        """Return the number of charges that the agent logged when it stopped, or None if there is no such log line."""
        charges = _STOPPED.findall(member.log.read_text(encoding="utf-8", errors="replace"))
        return int(charges[-1]) if charges else None

    def spending(self, member: Member) -> Spending:
        """Return the spending recorded in the agent's ledger, without asking the agent."""
        ledger = Ledger.read(member.ledger)
        try:
            return ledger.spending()
        finally:
            ledger.close()

    def _build_members(self, directory: Path) -> list[Member]:
        options = self._plan.options
        *ports, broker_port = _free_ports(options.agents + 1)
        self._configuration(0, Path(), options.data, 1, [])  # invalid settings must fail before any file is created
        fleet = create_fleet(directory / "fleet", FLEET_PREFIX + secrets.token_hex(4))
        if any("mqtt" in options.agent_transports(i) for i in range(options.agents)):
            external = None if options.broker is None else MqttSection(url=options.broker, plaintext=True)
            self.broker = create_broker(fleet, directory, broker_port, external)
        members = []
        for i in range(options.agents):
            name = f"agent-{i:02d}"
            state = directory / name
            members.append(Member(name, join(fleet, state, options.budget), state))
        if self._plan.public_split.public is not None:
            save_records(self._public, self._plan.public_split.public, self._plan)
        for i, member in enumerate(members):
            records = member.state / "records.npz"
            save_records(records, self._plan.raw[i], self._plan)
            peers = [
                {"id": members[j].identity.node_id, "address": self._address(i, j, ports[j])}
                for j in self._plan.peers[i]
            ]
            config = self._configuration(i, member.state, f"npz:{records}", ports[i], peers)
            member.config.write_text(tomlkit.dumps(to_tables(config)))
        return members

    def _address(self, index: int, peer: int, port: int) -> str:
        """Return the address at which one agent reaches another."""
        options = self._plan.options
        share_grpc = "grpc" in options.agent_transports(index) and "grpc" in options.agent_transports(peer)
        return f"127.0.0.1:{port}" if share_grpc else f"mqtt:{MqttSection().realm}"

    def _configuration(
        self, index: int, state: Path, source: str, port: int, peers: list[dict[str, str]]
    ) -> AgentConfig:
        plan, period = self._plan, self._plan.options.period
        transport = {
            "timeout": min(10.0, max(2.0, 4 * period)),
            "backoff": min(1.0, max(0.05, period / 2)),
            "backoff_max": min(30.0, max(1.0, 4 * period)),
            **{key.removeprefix("transport."): value for key, value in plan.options.settings.items()
               if key.startswith("transport.") and not key.startswith("transport.mqtt.")},
            "use": list(plan.options.agent_transports(index)),
            "mqtt": {"url": "mqtt://127.0.0.1"} if self.broker is None else dict(self.broker.settings),
        }  # fmt: skip
        return plan.options.configuration(
            agent={"state": str(state)},
            data=plan.data_table(source, f"npz:{self._public}"),
            learner=plan.learner_keys(index),
            transport={**transport, "listen": f"127.0.0.1:{port}", "peers": peers},
            ledger={"alone": index in plan.isolated_agents},
        )

    @staticmethod
    def _exit_error(member: Member, code: int) -> SottovoceError:
        lines = member.log.read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "the log is empty"
        return _ERRORS.get(code, InternalError)(f"{member.name} ended with exit code {code}: {last}")


def _free_ports(count: int) -> list[int]:
    """Return `count` ports on 127.0.0.1 that no process listens on."""
    ports: list[int] = []
    generator = secrets.SystemRandom()
    for port in generator.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise NetworkError(
        f"127.0.0.1 has fewer than {count} free ports in {_PORTS.start}-{_PORTS.stop - 1}; use fewer agents"
    )
