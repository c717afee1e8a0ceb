"""`sottovoce fleet renew`: renew a device's certificate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli import workstation
from sottovoce.cli.fleet_options import Valid, check_reachable
from sottovoce.errors import UsageError
from sottovoce.plugins.workstation import OPERATOR

_USAGE = (
    "use one of: --fleet DIR --state DIR (with access to the key); --state DIR --request FILE (on the device), "
    "--fleet DIR --sign FILE --out FILE (where the key is), --state DIR --install FILE (on the device); "
    "--fleet DIR --serve HOST:PORT (an enroller); or --state DIR --enroller HOST:PORT"
)


def renew(
    state: Annotated[Path | None, typer.Option("--state", help="The device's state directory.")] = None,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="The fleet's directory, with its key.")] = None,
    request: Annotated[Path | None, typer.Option(help="On the device: write its request here.")] = None,
    sign: Annotated[Path | None, typer.Option(help="Where the key is: sign this request.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the new certificate here.")] = None,
    install: Annotated[Path | None, typer.Option(help="On the device: install this certificate.")] = None,
    serve: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Answer renewal requests at this address until Ctrl-C.")
    ] = None,
    enroller: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="On the device: ask this enroller now.")
    ] = None,
    valid: Valid = None,
) -> None:
    """Renew a device's certificate. A running agent switches to it without a restart."""
    options = {
        name
        for name, value in {
            "state": state, "fleet": fleet, "request": request, "sign": sign, "out": out, "install": install,
            "serve": serve, "enroller": enroller,
        }.items()
        if value is not None
    }  # fmt: skip
    state, fleet = state or Path(), fleet or Path()
    if options == {"fleet", "state"}:
        _renew_directly(fleet, state, valid)
    elif options == {"state", "request"} and request is not None:
        _write_request(state, request)
    elif options == {"fleet", "sign", "out"} and sign is not None and out is not None:
        _sign_request(fleet, sign, out, valid)
    elif options == {"state", "install"} and install is not None:
        _install(state, install)
    elif options == {"fleet", "serve"} and serve is not None:
        _fleet_key().serve_renewals(fleet, serve, valid)
    elif options == {"state", "enroller"} and enroller is not None:
        _ask_enroller(state, enroller)
    else:
        raise UsageError(_USAGE)


def _renew_directly(fleet: Path, state: Path, valid: str | None) -> None:
    from sottovoce.fleet.renewal import make_renewal_request

    _replace_certificate(
        state,
        _fleet_key().renew(fleet, make_renewal_request(_identity_directory(state)), "the request", valid),
        "the new certificate",
    )


def _write_request(state: Path, request: Path) -> None:
    from sottovoce.fleet.files import write_new
    from sottovoce.fleet.renewal import make_renewal_request

    write_new({request: make_renewal_request(_identity_directory(state))})
    typer.echo(
        f"{request}: this file is public; where the fleet's key is stored, sign it with `sottovoce fleet renew --sign`"
    )


def _sign_request(fleet: Path, sign: Path, out: Path, valid: str | None) -> None:
    from sottovoce.fleet.files import read, write_new

    write_new({out: _fleet_key().renew(fleet, read(sign), sign, valid)})
    typer.echo(f"{out}: this file is public; install it with `sottovoce fleet renew --state DIR --install {out.name}`")


def _install(state: Path, install: Path) -> None:
    from sottovoce.fleet.files import read

    _replace_certificate(state, read(install), install)


def _ask_enroller(state: Path, address: str) -> None:
    from sottovoce.fleet import load
    from sottovoce.fleet.renewal import make_renewal_request
    from sottovoce.net.enrolment import request_renewal

    check_reachable(address, "--enroller", "an enroller")
    identity = load(_identity_directory(state), check_dates=False)
    pem = request_renewal(address, make_renewal_request(_identity_directory(state)), identity)
    _replace_certificate(state, pem, f"the certificate issued by the enroller at {address}")


def _fleet_key() -> Any:
    """Return the operator's module with the steps that need the fleet's key."""
    return workstation.load_module("cli.fleet_key", "fleet renew --fleet", OPERATOR)


def _replace_certificate(state: Path, pem: bytes, source: object) -> None:
    from sottovoce.fleet.renewal import install_certificate

    expires = install_certificate(_identity_directory(state), pem, source)
    typer.echo(f"{state}: certificate valid until {expires.isoformat()}; a running agent switches to it")


def _identity_directory(state: Path) -> Path:
    from sottovoce.fleet.identity import IDENTITY

    return state / IDENTITY
