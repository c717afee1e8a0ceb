"""Checks that a configuration can run here, as far as this can be determined before anything is opened."""

from pathlib import Path

from sottovoce.algorithms.assembly import family_of
from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.errors import ConfigError, DataError, IdentityError
from sottovoce.identity import Identity
from sottovoce.wire import MAX_PARAMETERS

_LONGEST_SOCKET_PATH = 100


def check_state(state: Path) -> None:
    """Refuse a state directory that does not exist.

    Raises:
        IdentityError: if it does not exist.
    """
    if not state.is_dir():
        raise IdentityError(f"{state}: no such state directory; make one with `sottovoce fleet join`")


def check_mode(config: AgentConfig, identity: Identity) -> None:
    """Refuse a device whose way of joining differs from the configuration's.

    Raises:
        ConfigError: if the two differ.
    """
    mode = config.identity.mode
    if identity.mode != mode:
        raise ConfigError(f'identity.mode: is "{mode}", but this device joined as "{identity.mode}": correct it')


def check_socket(state: Path) -> None:
    """Refuse a state directory in which the agent could have no control socket.

    Raises:
        ConfigError: if its path is too long.
    """
    if len(str(state / "agent.sock")) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"agent.state: {state}: too long for a local socket; choose a path below 90 characters "
            "(in a testbed: --set testbed.directory=…)"
        )


def check_readers(config: AgentConfig) -> None:
    """Refuse a socket for readers that could not be made.

    Raises:
        ConfigError: if its directory is not there, or its path is too long.
    """
    path = config.agent.readers_socket
    if path is None:
        return
    if len(str(path)) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"agent.readers_socket: {path}: too long for a local socket; choose a path below 90 characters"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"agent.readers_socket: {path.parent}: no such directory; create it, or leave the key out")


def check_peers(config: AgentConfig, identity: Identity) -> None:
    """Refuse a device that lists itself.

    Raises:
        ConfigError: if the device is among its own peers.
    """
    if identity.node_id in (peer.id for peer in config.transport.peers):
        raise ConfigError(f"transport.peers: {identity.node_id} is this device itself; list only others")


def check_cell(config: AgentConfig) -> None:
    """Refuse a device that knows fewer others than a secure sum needs, and looks for none.

    Raises:
        ConfigError: if there are too few other devices.
    """
    devices = len(config.transport.peers) + 1
    if config.cell is not None and config.membership.sampling == "static" and devices < config.cell.least:
        smaller = f", or set it to {devices} on all of them" if devices > 2 else ""
        raise ConfigError(
            f"privacy.cell.min: a secure sum needs at least {config.cell.least} devices, and this device and its "
            f"transport.peers are {devices}: list more{smaller}"
        )


def runnable_family(config: AgentConfig) -> Family:
    """Return the parts for a configuration whose model runs on this machine and fits into a message.

    Raises:
        SottovoceError: if there are none, or the budget allows no such release.
    """
    try:
        width(config.data.transform, config.data.features)
    except DataError as error:
        raise ConfigError(f"data.transform: {error}") from error
    family = family_of(config)
    family.check()
    if family.model.size > MAX_PARAMETERS:
        raise ConfigError(
            f"learner.model: a model of {family.model.size} parameters does not fit into a message, which holds "
            f"{MAX_PARAMETERS}; choose a smaller model, or declare fewer features or classes"
        )
    return family
