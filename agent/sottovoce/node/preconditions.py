"""Checks that a configuration can run on this machine, as far as this can be determined before anything is opened."""

from pathlib import Path

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig
from sottovoce.data import parse, width
from sottovoce.data.spec import unproved_reason
from sottovoce.errors import ConfigError, DataError, IdentityError, PrivacyError
from sottovoce.fleet import Identity
from sottovoce.net.wire import MAX_PARAMETERS

_LONGEST_SOCKET_PATH = 100


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


def check_cell(config: AgentConfig) -> None:
    """Check that a device with a static list of peers knows enough other devices for a secure sum.

    Raises:
        ConfigError: if there are too few other devices.
    """
    devices = len(config.transport.peers) + 1
    if config.cell is not None and config.membership.sampling == "static" and devices < config.cell.least:
        alternative = f", or set privacy.cell.min to {devices} on all devices" if devices > 2 else ""
        raise ConfigError(
            f"privacy.cell.min: a secure sum requires at least {config.cell.least} devices, but this device and "
            f"its transport.peers number only {devices}; list more peers{alternative}"
        )


def _check_data_kind(config: AgentConfig) -> None:
    """Check that each row of the data becomes a record by itself, or that the owner accepts an unproved ε.

    Raises:
        PrivacyError: if neither holds.
    """
    reason = unproved_reason(parse(config.data.source))
    if reason and not config.privacy.allow_unproved:
        raise PrivacyError(
            f"data.source: no ε is proved: {reason}; mend it, see `sottovoce plugins --check`, or set "
            "privacy.allow_unproved = true"
        )


def runnable_family(config: AgentConfig) -> Family:
    """Return the family for a configuration after checking that its model can run here and fits into a message.

    Raises:
        SottovoceError: if there is no such family, a check fails, or the budget does not allow such a release.
    """
    try:
        width(config.data.transform, config.data.features)
    except DataError as error:
        raise ConfigError(f"data.transform: {error}") from error
    _check_data_kind(config)
    family = build_family(config)
    family.check()
    if family.model.size > MAX_PARAMETERS:
        raise ConfigError(
            f"learner.model: a model with {family.model.size} parameters does not fit in a message, whose limit "
            f"is {MAX_PARAMETERS} parameters; use a smaller model, or declare fewer features or classes"
        )
    return family
