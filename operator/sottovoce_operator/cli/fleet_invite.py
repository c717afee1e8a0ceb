"""`sottovoce fleet invite`: create bundles for new devices, or print a token and wait for a device to present it."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from sottovoce.cli.fleet_options import FleetDirectory, Valid, check_reachable, parse_duration, parse_validity
from sottovoce.errors import ConfigError, IdentityError, UsageError

if TYPE_CHECKING:  # imported late because every command module is imported at every start
    from sottovoce.fleet import Validity
    from sottovoce.fleet.invitation import Seeds

    from sottovoce_operator.fleet import Fleet
    from sottovoce_operator.fleet.enroller import Enroller

_EXPIRES = "5m"
_MAX_TOKEN_SECONDS = 86_400  # kept short because anyone who sees the token can use it while it is valid


def run_invite(
    fleet: FleetDirectory = Path("fleet"),
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the bundle, which contains everything a device needs; with --manifest, a directory."
        ),
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option(help="Invite every device in this CSV file and add the bundle names to it.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="Create the manifest with this number of devices.", show_default=False)
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Print a token and wait at this address for the device that presents it."
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help=f"Lifetime of the token; {_EXPIRES} by default, 1d at most.")
    ] = None,
    qr: Annotated[bool, typer.Option("--qr", help="Also print the token as a QR code.")] = False,
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="ID@ADDRESS", help="A peer to contact first; may be repeated.", show_default=False),
    ] = None,
    broker: Annotated[str | None, typer.Option(help="The fleet's MQTT broker, mqtts://HOST:PORT.")] = None,
    realm: Annotated[str, typer.Option(help="The broker's public name.")] = "main",
    valid: Valid = None,
) -> None:
    """Invite a device with a bundle file or a single-use token, or many devices with bundles."""
    import msgspec

    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.promise import read_promise

    if not fleet.is_dir():
        raise IdentityError(
            f"--fleet {fleet}: no such directory; create a fleet with `sottovoce fleet init --name NAME "
            f"--fleet {fleet}`, or specify the directory of an existing one"
        )
    if (out is None) == (serve is None):
        raise UsageError("use either --out FILE to write a bundle or --serve HOST:PORT to offer a token")
    if out is not None and (qr or expires is not None):
        raise UsageError(
            "--qr and --expires apply only to tokens; for a bundle, which is valid as long as its certificate, "
            "use --valid"
        )
    if count is not None and manifest is None:
        raise UsageError("--count requires --manifest, the file in which the devices are listed")
    if manifest is not None and out is None:
        raise UsageError("--manifest requires --out, the directory for the bundles")
    opened_fleet = open_fleet(fleet)
    seeds = msgspec.structs.replace(_seeds(seed or [], broker, realm), promised=read_promise(fleet))
    if out is not None and manifest is not None:
        from sottovoce_operator.cli.fleet_manifest import write_bundles

        names = write_bundles(opened_fleet, manifest, out, count, seeds, parse_validity(valid))
        typer.echo(
            f"{manifest}: {len(names)} devices. Anyone who has {out}/NAME.bundle can act as that device: copy each "
            "bundle to"
        )
        typer.echo(
            "its device, join there with `sottovoce fleet join --bundle NAME.bundle --state DIR`, and keep no copy."
        )
    elif out is not None:
        _write_bundle(opened_fleet, out, seeds, parse_validity(valid))
    else:
        _serve(fleet, opened_fleet, serve or "", expires or _EXPIRES, seeds, valid, _printer(qr))


def _write_bundle(fleet: "Fleet", out: Path, seeds: "Seeds", validity: "Validity | None") -> None:
    from sottovoce_operator.fleet.bundles import new_bundle, write_bundle

    bundle = new_bundle(fleet, seeds, validity)
    write_bundle(out, bundle)
    typer.echo(f"{out}: for device {bundle.id}, with its keys. Anyone who has this file can act as that device: copy")
    typer.echo(
        f"it to the device, join there with `sottovoce fleet join --bundle {out.name} --state DIR`, and keep no copy."
    )


def _serve(
    directory: Path,
    fleet: "Fleet",
    address: str,
    expires: str,
    seeds: "Seeds",
    valid: str | None,
    show: Callable[[str], None],
) -> None:
    from sottovoce.errors import NetworkError

    from sottovoce_operator.fleet.enroller import record_invitation

    seconds = parse_duration(expires, "--expires")
    if seconds > _MAX_TOKEN_SECONDS:
        raise UsageError(
            f"--expires: {expires} is too long; the limit is 1d, because anyone who sees the token can use it"
        )

    async def wait_for_device() -> str | None:
        enroller = make_enroller(directory, fleet, address, seeds, valid)
        token = enroller.invite(seconds)

        def show_token() -> None:
            show(str(token))
            typer.echo(
                f"waiting at {address} for {expires}; on the new device: sottovoce fleet join --token -", err=True
            )

        await enroller.serve(show_token)
        return enroller.joined_node

    # Without this handler, SIGTERM would leave the recorded invitation behind.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with record_invitation(directory, address, seconds):
        joined = asyncio.run(wait_for_device())
    if joined is None:
        raise NetworkError(
            f"no device joined within {expires}, so the token is no longer valid; invite again with a longer --expires"
        )
    typer.echo(joined)


def make_enroller(
    directory: Path, fleet: "Fleet", address: str, seeds: "Seeds | None", valid: str | None
) -> "Enroller":
    """Return an enroller for a fleet's directory.

    Raises:
        UsageError: if no device could connect to the address.
    """
    from sottovoce.node.gossip.revocation_store import load_revocation_list

    from sottovoce_operator.fleet.enroller import Enroller

    check_reachable(address, "--serve", "this enroller")

    def revoked_ids() -> tuple[str, ...]:
        revocations = load_revocation_list(directory, fleet.authority)
        return () if revocations is None else revocations.node_ids

    return Enroller(fleet, address, revoked=revoked_ids, validity=lambda: parse_validity(valid), seeds=seeds)


def _printer(qr: bool) -> Callable[[str], None]:
    """Return a function that prints a token, with a QR code if requested.

    Raises:
        ConfigError: if a QR code is requested and the package segno is missing.
    """
    if not qr:
        return lambda token: typer.echo(token)
    try:
        import segno
    except ImportError as error:
        raise ConfigError("--qr requires the package segno; install sottovoce[qr], or omit --qr") from error

    def show(token: str) -> None:
        segno.make(token, micro=False).terminal(compact=True)
        typer.echo(token)

    return show


def _seeds(seeds: list[str], broker: str | None, realm: str) -> "Seeds":
    """Return the seeds for the new device, after applying the checks that the device itself will apply.

    Raises:
        UsageError: if a seed or the broker is not valid, or there are too many seeds.
    """
    import msgspec
    from sottovoce.config.transport import MqttSection
    from sottovoce.errors import MessageRefused
    from sottovoce.fleet.invitation import MAX_SEEDS, Broker, Seed, Seeds
    from sottovoce_bootstrap import Contact

    endpoints: dict[str, list[str]] = {}
    for seed in seeds:
        node_id, _, endpoint = seed.partition("@")
        endpoints.setdefault(node_id, []).append(endpoint)
    try:
        contacts = [Contact(node_id, tuple(node_endpoints)) for node_id, node_endpoints in endpoints.items()]
    except MessageRefused as error:
        raise UsageError(f"--seed: {error}; use ID@HOST:PORT or ID@mqtt:REALM") from error
    if len(contacts) > MAX_SEEDS:
        raise UsageError(f"--seed: specify at most {MAX_SEEDS} devices")
    try:
        msgspec.convert({"url": broker, "realm": realm, "plaintext": True}, MqttSection)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"--broker {broker or ''}, --realm {realm!r}: no device can use these values; set --broker to "
            "mqtts://HOST:PORT, and --realm to at most 32 lowercase letters, digits and dashes"
        ) from error
    return Seeds(
        tuple(Seed(contact.node_id, contact.endpoints) for contact in contacts),
        None if broker is None else Broker(broker, realm),
    )
