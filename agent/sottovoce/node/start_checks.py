"""Startup checks shared by `agent run`, `config check` and the doctor, which therefore report identical messages.

They check that a configuration can run on this machine, as far as this can be determined before anything is opened.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from sottovoce.config import AgentConfig
from sottovoce.data.notes import Note, data_notes, data_summary
from sottovoce.errors import ConfigError, IdentityError, NetworkError, SottovoceError
from sottovoce.fleet import Identity, load as load_identity
from sottovoce.fleet.identity import IDENTITY
from sottovoce.net.listening import find_listening_error, make_listening_error
from sottovoce.node.control import ask
from sottovoce.node.local_vault import load_configured_dataset
from sottovoce.node.network import check_transports
from sottovoce.node.vault_session import check_cell, runnable_family

_LONGEST_SOCKET_PATH = 100
_STATUS_SECONDS = 2.0


def check_state(state: Path) -> None:
    """Check that the state directory exists.

    Raises:
        IdentityError: if it does not exist.
    """
    if not state.is_dir():
        raise IdentityError(f"{state}: the state directory does not exist; create it with `sottovoce fleet join`")


def check_mode(config: AgentConfig, identity: Identity) -> None:
    """Check that the device has joined its fleet in the mode that the configuration specifies.

    Raises:
        ConfigError: if the two modes differ.
    """
    mode = config.identity.mode
    if identity.mode != mode:
        raise ConfigError(f'identity.mode is "{mode}", but this device joined as "{identity.mode}"; correct the key')


def check_socket(state: Path) -> None:
    """Check that the agent can create its control socket in the state directory.

    Raises:
        ConfigError: if the path of the socket is too long.
    """
    if len(str(state / "agent.sock")) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"agent.state: the path {state} is too long for a local socket; use fewer than 90 characters (in a "
            "testbed: --set testbed.directory=…)"
        )


def check_readers(config: AgentConfig) -> None:
    """Check that the agent can create its socket for readers, if one is configured.

    Raises:
        ConfigError: if the directory of the socket does not exist, or its path is too long.
    """
    path = config.agent.readers_socket
    if path is None:
        return
    if len(str(path)) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"agent.readers_socket: the path {path} is too long for a local socket; use fewer than 90 characters"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigError(
            f"agent.readers_socket: {path.parent} does not exist; create the directory, or remove this key"
        )


def check_peers(config: AgentConfig, identity: Identity) -> None:
    """Check that the device does not list itself as a peer.

    Raises:
        ConfigError: if it does.
    """
    if identity.node_id in (peer.id for peer in config.transport.peers):
        raise ConfigError(f"transport.peers: {identity.node_id} is this device itself; list only other devices")


def find_problems(config: AgentConfig) -> Iterator[SottovoceError]:
    """Yield each error that would stop an agent with this configuration on this machine.

    If the state directory is missing, this machine is not the device, so addresses, peers and records are not checked.
    """
    on_device = config.agent.state.is_dir()
    for check in (*_FILE_CHECKS, *(_DEVICE_CHECKS if on_device else ())):
        try:
            check(config)
        except SottovoceError as error:
            yield error


def find_notes(config: AgentConfig) -> tuple[list[Note], str]:
    """Return what does not fit between the declarations and this device's records, and a summary of the records.

    Show both only to the owner. An agent that acted on them, or stopped because of them, would reveal something about
    its records to peers.
    """
    if not config.agent.state.is_dir() or not _can_read_records(config):
        return [], ""
    data, dataset = config.data, load_configured_dataset(config.data)
    records = dataset.records
    if not len(records):
        problem = f"data.source: {data.source} does not contain any records"
        return [Note(problem, "add records; this device cannot learn without them")], ""
    notes = [
        *data_notes(
            records,
            bounds=dataset.bounds,
            transform=data.transform,
            columns=dataset.columns,
            delta=config.privacy.delta if math.isfinite(config.privacy.epsilon) else None,
        )
    ]
    if not 0.1 <= len(records) / data.expected_records <= 10:
        problem = f"data.expected_records is {data.expected_records:g}, but the source has {len(records)} records"
        notes.append(Note(problem, "set it to the number of records that a device is expected to have"))
    return notes, data_summary(records, data.classes, data.labels, dataset.columns)


def _can_read_records(config: AgentConfig) -> bool:
    """Return whether the records are in a file that this process itself reads."""
    return config.vault.socket is None and not config.data.source.startswith("feed:")


def _check_identity(config: AgentConfig) -> None:
    identity = load_identity(config.agent.state / IDENTITY, peers=[peer.id for peer in config.transport.peers])
    check_mode(config, identity)
    check_peers(config, identity)


def _check_records(config: AgentConfig) -> None:
    if _can_read_records(config):
        load_configured_dataset(config.data)


def _check_addresses(config: AgentConfig) -> None:
    addresses = {"transport.listen": config.transport.listen} if "grpc" in config.transport.use else {}
    if config.observe.metrics is not None:
        addresses["observe.metrics"] = config.observe.metrics
    for key, address in addresses.items():
        if (error := find_listening_error(address)) is not None and not _is_agent_running(config):
            raise make_listening_error(key, address, error)


def _is_agent_running(config: AgentConfig) -> bool:
    """Return whether the device's agent is running, in which case the addresses are in use by the agent itself."""
    try:
        ask(config.agent.state, "status", _STATUS_SECONDS, waiting=True)
    except NetworkError:
        return False
    return True


def _check_socket_path(config: AgentConfig) -> None:
    check_socket(config.agent.state)


_FILE_CHECKS: tuple[Callable[[AgentConfig], object], ...] = (
    _check_socket_path,
    runnable_family,
    check_cell,
    check_transports,
)
_DEVICE_CHECKS: tuple[Callable[[AgentConfig], object], ...] = (
    check_readers,
    _check_identity,
    _check_records,
    _check_addresses,
)
