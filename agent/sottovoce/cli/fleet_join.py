"""`sottovoce fleet join`: create a device, and join a fleet by one of five methods."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import workstation
from sottovoce.cli.fleet_options import (
    Delta,
    Epsilon,
    Neighbouring,
    StateDirectory,
    Unit,
    Valid,
    check_budget,
    parse_validity,
)
from sottovoce.errors import UsageError
from sottovoce.plugins.workstation import OPERATOR

if TYPE_CHECKING:
    from sottovoce.fleet.invitation import Token

_METHODS = "--fleet DIR, --bundle FILE, --token TOKEN, --pinned or --external"


def join(
    state: StateDirectory,
    fleet: Annotated[
        Path | None, typer.Option("--fleet", help="The fleet's directory, with its key; ./fleet by default.")
    ] = None,
    bundle: Annotated[Path | None, typer.Option(help="Join with this bundle, which can be used only once.")] = None,
    token: Annotated[str | None, typer.Option(help="Join with this token; - reads it from the terminal.")] = None,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="Join a fleet without a CA: devices pin each other's ids.")
    ] = False,
    external: Annotated[bool, typer.Option("--external", help="Join with a certificate from another CA.")] = False,
    name: Annotated[str | None, typer.Option(help="The fleet's name, for --pinned and --external.")] = None,
    pin: Annotated[
        list[Path] | None, typer.Option(help="--pinned: another device's tls.pem, to pin on an existing device.")
    ] = None,
    request: Annotated[
        Path | None, typer.Option(help="--external: create keys and write the certificate request here.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="--external: the issued certificate, in PEM format.")] = None,
    issuer: Annotated[Path | None, typer.Option(help="--external: the certificate of the CA that signed it.")] = None,
    valid: Valid = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbouring: Neighbouring = None,
    unit: Unit = None,
    vault: Annotated[
        Path | None,
        typer.Option(help="Create the ledger here, in the directory of a separate vault, instead of in --state."),
    ] = None,
) -> None:
    """Create a device: its keys, its certificate and its privacy ledger."""
    from sottovoce.node.state_directory import Join, resolve_budget

    check_budget(epsilon, delta)
    if sum((fleet is not None, bundle is not None, token is not None, pinned, external)) > 1:
        raise UsageError(f"a device can join in only one way; use one of {_METHODS}")
    if valid is not None and (bundle is not None or token is not None or external):
        raise UsageError(
            "the certificate issuer sets the validity; pass --valid to `sottovoce fleet invite`, or ask your CA"
        )
    _check_option_applies(pinned, external, name=name, pin=pin, request=request, certificate=certificate, issuer=issuer)
    budget = partial(resolve_budget, epsilon=epsilon, delta=delta, unit=unit, neighbouring=neighbouring)
    device = Join(state, budget, vault)
    if bundle is not None:
        identity = device.with_bundle(bundle)
    elif token is not None:
        identity = device.with_token(_read_token(token))
    elif pinned:
        if pin:
            _pin_devices(state, pin)
            return
        if name is None:
            raise UsageError("--pinned: use --name NAME to create a device, or --pin FILE for one that already exists")
        identity = device.pinned(name, parse_validity(valid))
    elif external:
        if request is not None and name is not None:
            from sottovoce.fleet.files import write_new

            write_new({request: device.request(name)})
            typer.echo(f"{request}: have your CA sign this request without changing it, then join with --certificate")
            return
        if certificate is None or issuer is None:
            raise UsageError("--external: first use --name NAME --request FILE, then --certificate FILE --issuer FILE")
        identity = device.with_certificate(_read(certificate), _read(issuer))
    else:
        if fleet is None and not Path("fleet").is_dir():
            raise UsageError(
                f"specify how this device should join: {_METHODS}; to create a new fleet, run `sottovoce fleet init`"
            )
        fleet_key = workstation.load_module("cli.fleet_key", "fleet join --fleet", OPERATOR)
        identity = fleet_key.join(fleet or Path("fleet"), state, budget, valid, vault)
    typer.echo(identity.node_id)
    _print_broker_settings(state)


def _print_broker_settings(state: Path) -> None:
    """If the invitation includes a broker, print the configuration keys for it to standard error."""
    from sottovoce.fleet.invitation import read_seeds

    broker = read_seeds(state).broker
    if broker is not None:
        typer.echo('to use the fleet\'s broker, set [transport] use = ["mqtt"] or ["grpc", "mqtt"], and', err=True)
        typer.echo(f'[transport.mqtt] url = "{broker.url}" and realm = "{broker.realm}"', err=True)


def _check_option_applies(pinned: bool, external: bool, **options: Any) -> None:
    """Check that every option that was passed applies to the chosen method of joining.

    Raises:
        UsageError: if an option does not apply.
    """
    allowed = {"name": pinned or external, "pin": pinned}
    for option, value in options.items():
        if value and not allowed.get(option, external):
            raise UsageError(
                f"--{option} is only valid with {'--pinned' if option in ('pin', 'name') else '--external'}"
            )


def _read_token(text: str) -> "Token":
    from sottovoce.fleet.invitation import Token

    if text == "-":
        text = typer.prompt("token", err=True) if sys.stdin.isatty() else sys.stdin.readline()
        if not text.strip():
            raise UsageError(
                "--token -: standard input does not contain a token; enter the one printed by `fleet invite`"
            )
    return Token.decode(text)


def _pin_devices(state: Path, certificates: list[Path]) -> None:
    from sottovoce.fleet.identity import IDENTITY
    from sottovoce.fleet.pinned import pin

    for file in certificates:
        typer.echo(pin(state / IDENTITY, _read(file), file))


def _read(path: Path) -> bytes:
    from sottovoce.fleet.files import read

    return read(path)
