"""`sottovoce fleet invite --manifest FILE`: create a bundle for each listed device, with contacts from the list."""

import csv
import io
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import UsageError

if TYPE_CHECKING:  # imported late because every command module is imported at every start
    from sottovoce.fleet import Validity
    from sottovoce.fleet.invitation import Bundle, Seeds

    from sottovoce_operator.fleet import Fleet

_COLUMNS = ("name", "address", "id", "bundle")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_DEVICES, _MAX_BYTES = 10_000, 2**21
_MAX_CONTACTS = 8  # listed devices that each bundle contains as contacts, through which a device finds all others


def write_bundles(
    fleet: "Fleet", manifest: Path, out: Path, count: int | None, seeds: "Seeds", validity: "Validity | None"
) -> list[str]:
    """Create a bundle for every device in a manifest, and record each device's id and bundle in the manifest.

    Args:
        fleet: the fleet, opened with its key.
        manifest: CSV file with a column `name` and, if known, the devices' listening addresses in `address`; if the
            file is missing, it is created with `count` devices.
        out: directory for the bundles, each named NAME.bundle.
        count: expected number of devices; None to accept any number.
        seeds: additional contacts for all devices.
        validity: validity period of the certificates; 90 days from now by default.

    Returns:
        The device names.

    Raises:
        UsageError: if the manifest is invalid or a bundle already exists; nothing has been written.
        IdentityError: if a file cannot be written.
    """
    from sottovoce.fleet.files import exclusive, replace

    from sottovoce_operator.fleet.bundles import new_bundle, write_bundle

    with exclusive(manifest.parent):
        rows = _read_rows(manifest) if manifest.exists() else _new_rows(manifest, count)
        if count is not None and len(rows) != count:
            raise UsageError(
                f"--count {count}: {manifest} lists {len(rows)} devices; omit --count, or correct the number"
            )
        files = [out / f"{row['name']}.bundle" for row in rows]
        existing = next((file for file in files if file.exists()), None)
        if existing is not None:
            raise UsageError(f"{existing} already exists and will not be overwritten; set --out to another directory")
        drafts = [new_bundle(fleet, seeds, validity) for _ in rows]
        bundles_with_contacts = [_with_contacts(drafts, rows, index, seeds) for index in range(len(rows))]
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, bundle in zip(files, bundles_with_contacts, strict=True):
            write_bundle(file, bundle)
        completed_rows = [
            {**row, "id": draft.id, "bundle": str(file)} for row, draft, file in zip(rows, drafts, files, strict=True)
        ]
        replace(manifest, _format_rows(completed_rows).encode())
    return [row["name"] for row in rows]


def _with_contacts(drafts: "list[Bundle]", rows: list[dict[str, str]], index: int, seeds: "Seeds") -> "Bundle":
    """Return one device's bundle, with the next devices in the manifest that have addresses added as contacts."""
    import msgspec
    from sottovoce.fleet.invitation import MAX_SEEDS, Seed

    successors = ((index + i) % len(rows) for i in range(1, len(rows)))
    peers = islice((Seed(drafts[i].id, (rows[i]["address"],)) for i in successors if rows[i]["address"]), _MAX_CONTACTS)
    contacts = (*seeds.contacts, *peers)[:MAX_SEEDS]
    return msgspec.structs.replace(drafts[index], seeds=msgspec.structs.replace(seeds, contacts=contacts))


def _new_rows(manifest: Path, count: int | None) -> list[dict[str, str]]:
    if count is None:
        raise UsageError(f"{manifest} does not exist; create it with a column `name`, or let --count N create it")
    if not 1 <= count <= _MAX_DEVICES:
        raise UsageError(f"--count {count}: must be from 1 to {_MAX_DEVICES} devices")
    digits = len(str(count))
    return [dict.fromkeys(_COLUMNS, "") | {"name": f"device-{i:0{digits}}"} for i in range(1, count + 1)]


def _read_rows(manifest: Path) -> list[dict[str, str]]:
    """Read and check a manifest, and return its rows.

    Raises:
        UsageError: if the file cannot be read or is not a valid device list.
    """
    from sottovoce.errors import MessageRefused
    from sottovoce_bootstrap import Contact

    try:
        if manifest.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{manifest} is too large for a device list; the limit is {_MAX_BYTES} bytes")
        reader = csv.DictReader(io.StringIO(manifest.read_text(encoding="utf-8-sig")), strict=True)
        records = list(reader)
    except (OSError, UnicodeError, csv.Error) as error:
        raise UsageError(f"{manifest} is not a device list ({error}); use CSV with a column `name`") from error
    unknown = set(reader.fieldnames or ()) - set(_COLUMNS)
    if unknown or "name" not in (reader.fieldnames or ()):
        raise UsageError(f"{manifest}: the header may contain only {', '.join(_COLUMNS)}, and `name` is required")
    if not 1 <= len(records) <= _MAX_DEVICES:
        raise UsageError(f"{manifest} lists {len(records)} devices; it must list 1 to {_MAX_DEVICES}")
    rows = [{key: (row.get(key) or "").strip() for key in _COLUMNS} for row in records]
    names: set[str] = set()
    for line, row in enumerate(rows, start=2):
        name, address = row["name"], row["address"]
        if None in records[line - 2] or not _NAME.fullmatch(name) or name in names:
            raise UsageError(
                f"{manifest}, line {line}: {name!r} is not a valid device name, or appears twice; use up to 64 "
                "letters, digits, `-` and `_`"
            )
        names.add(name)
        if row["id"]:
            raise UsageError(
                f"{manifest}, line {line}: {name} has already been invited; list new devices in a separate file"
            )
        try:
            if address:
                Contact("a" * 32, (address,))
        except MessageRefused as error:
            raise UsageError(f"{manifest}, line {line}: {error}; use HOST:PORT or mqtt:REALM") from error
    return rows


def _format_rows(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
