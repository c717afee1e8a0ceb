"""`sottovoce fleet renew` and `rotate`: renew a device's certificate, and replace the fleet's key."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.fleet_options import FleetDirectory, Valid, check_reachable, parse_validity
from sottovoce.errors import UsageError

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
        _serve(fleet, serve, valid)
    elif options == {"state", "enroller"} and enroller is not None:
        _ask_enroller(state, enroller)
    else:
        raise UsageError(_USAGE)


def _renew_directly(fleet: Path, state: Path, valid: str | None) -> None:
    from sottovoce.fleet.renewal import make_renewal_request

    _replace_certificate(
        state,
        _renew_certificate(fleet, make_renewal_request(_identity_directory(state)), "the request", valid),
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

    write_new({out: _renew_certificate(fleet, read(sign), sign, valid)})
    typer.echo(f"{out}: this file is public; install it with `sottovoce fleet renew --state DIR --install {out.name}`")


def _install(state: Path, install: Path) -> None:
    from sottovoce.fleet.files import read

    _replace_certificate(state, read(install), install)


def _ask_enroller(state: Path, address: str) -> None:
    from sottovoce.fleet import load
    from sottovoce.fleet.renewal import make_renewal_request
    from sottovoce.node.enrolment import request_renewal

    check_reachable(address, "--enroller", "an enroller")
    identity = load(_identity_directory(state), check_dates=False)
    pem = request_renewal(address, make_renewal_request(_identity_directory(state)), identity)
    _replace_certificate(state, pem, f"the certificate issued by the enroller at {address}")


def _serve(directory: Path, address: str, valid: str | None) -> None:
    from sottovoce.cli.fleet_invite import make_enroller
    from sottovoce.fleet import open_fleet

    fleet = open_fleet(directory)

    async def serve() -> None:
        enroller = make_enroller(directory, fleet, address, None, valid)
        typer.echo(f"renewing certificates of fleet {fleet.name} at {address} until Ctrl-C", err=True)
        await enroller.serve()

    asyncio.run(serve())


def _renew_certificate(directory: Path, request: bytes, source: object, valid: str | None) -> bytes:
    from sottovoce.fleet import open_fleet
    from sottovoce.fleet.request import read_request
    from sottovoce.node.gossip.revocation_store import load_revocation_list

    fleet = open_fleet(directory)
    revocations = load_revocation_list(directory, fleet.authority)
    return fleet.renew(
        read_request(request, source), revocations.node_ids if revocations else (), parse_validity(valid)
    )


def _replace_certificate(state: Path, pem: bytes, source: object) -> None:
    from sottovoce.fleet.renewal import install_certificate

    expires = install_certificate(_identity_directory(state), pem, source)
    typer.echo(f"{state}: certificate valid until {expires.isoformat()}; a running agent switches to it")


def _identity_directory(state: Path) -> Path:
    from sottovoce.node.assemble import IDENTITY

    return state / IDENTITY


_DEFAULT_ACCEPT = "30d"
_MIN_SECONDS = 3600


def rotate(
    fleet: FleetDirectory = Path("fleet"),
    spare: Annotated[Path | None, typer.Option(help="The spare key's directory, if the current key is lost.")] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="With --spare: any device's state directory, if the fleet directory is lost too."),
    ] = None,
    accept: Annotated[
        str, typer.Option(help="How long certificates signed by the old key stay valid.")
    ] = _DEFAULT_ACCEPT,
) -> None:
    """Replace the fleet's key. Devices forward the new key and renew their certificates before the old ones expire."""
    from sottovoce.cli.fleet_options import parse_duration
    from sottovoce.fleet.ca import SPARE
    from sottovoce.node.gossip.revocation_store import NAME
    from sottovoce.node.rotation import rotate as rotate_by_current
    from sottovoce.node.rotation import rotate_with_spare

    if state is not None and spare is None:
        raise UsageError(
            "--state requires --spare: without --spare, the fleet's directory contains everything the fleet has signed"
        )
    seconds = int(parse_duration(accept, "--accept"))
    if seconds < _MIN_SECONDS:
        raise UsageError(
            f"--accept: {accept} is too short for devices to learn of the new key; use at least 1h, preferably 90d"
        )
    if spare is None:
        rotate_by_current(fleet, seconds)
    else:
        rotate_with_spare(fleet, spare, state, seconds)
    typer.echo(f"{fleet}: the new key is now in use; certificates signed by the old key stay valid for {accept}.")
    if (fleet / SPARE).exists():
        typer.echo(f"Move {fleet / SPARE}, the spare key, to another medium.")
    typer.echo(
        f"Install the list on any one device of the fleet: sottovoce fleet revoke --state DIR --install {fleet / NAME}"
    )
