"""`sottovoce fleet invite --manifest FILE`: a bundle for each listed device, which names other listed devices."""

import csv
import io
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import UsageError

if TYPE_CHECKING:  # imported late, since every command module is imported at every start
    from sottovoce.identity import Fleet, Validity
    from sottovoce.identity.invitation import Bundle, Seeds

_COLUMNS = ("name", "address", "id", "bundle")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_DEVICES, _MAX_BYTES = 10_000, 2**21
_NAMED_DEVICES = 8  # listed devices that each bundle names; through these a device finds the others


def bundles(
    fleet: "Fleet", manifest: Path, out: Path, count: int | None, seeds: "Seeds", validity: "Validity | None"
) -> list[str]:
    """Make bundles for all devices of a list, and note in the list which bundle belongs to which device.

    Args:
        fleet: opened with its key.
        manifest: CSV with a column `name` and, if known, the devices' listening addresses in `address`; if the file is
            missing, it is made with `count` devices.
        out: directory for the bundles, NAME.bundle each.
        count: number of devices; None for as many as are listed.
        seeds: additional contacts for all devices.
        validity: validity of their certificates; 90 days from now by default.

    Returns:
        the names of the devices.

    Raises:
        UsageError: if the list is invalid, or a bundle already exists; nothing was written.
        IdentityError: if something cannot be written.
    """
    from sottovoce.identity.files import replace
    from sottovoce.identity.invitation import write_bundle
    from sottovoce.identity.inviting import new_bundle

    rows = _read_rows(manifest) if manifest.exists() else _new(manifest, count)
    if count is not None and len(rows) != count:
        raise UsageError(f"--count {count}: {manifest} lists {len(rows)} devices; leave --count out, or correct one")
    files = [out / f"{row['name']}.bundle" for row in rows]
    if (there := next((file for file in files if file.exists()), None)) is not None:
        raise UsageError(f"{there} exists and is never overwritten: name another directory in --out")
    made = [new_bundle(fleet, seeds, validity) for _ in rows]
    complete = [_with_contacts(made, rows, place, seeds) for place in range(len(rows))]
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file, bundle in zip(files, complete, strict=True):
        write_bundle(file, bundle)
    listed = [{**row, "id": one.id, "bundle": str(file)} for row, one, file in zip(rows, made, files, strict=True)]
    replace(manifest, _format_rows(listed).encode())
    return [row["name"] for row in rows]


def _with_contacts(made: "list[Bundle]", rows: list[dict[str, str]], place: int, seeds: "Seeds") -> "Bundle":
    """Return the bundle of one device, with contacts: the devices that follow it in the list and have addresses."""
    import msgspec

    from sottovoce.identity.invitation import MAX_SEEDS, Seed

    after = ((place + i) % len(rows) for i in range(1, len(rows)))
    others = islice((Seed(made[i].id, (rows[i]["address"],)) for i in after if rows[i]["address"]), _NAMED_DEVICES)
    contacts = (*seeds.contacts, *others)[:MAX_SEEDS]
    return msgspec.structs.replace(made[place], seeds=msgspec.structs.replace(seeds, contacts=contacts))


def _new(manifest: Path, count: int | None) -> list[dict[str, str]]:
    if count is None:
        raise UsageError(f"{manifest} does not exist: write it with a column `name`, or give --count N to create it")
    if not 1 <= count <= _MAX_DEVICES:
        raise UsageError(f"--count {count}: 1 to {_MAX_DEVICES} devices")
    digits = len(str(count))
    return [dict.fromkeys(_COLUMNS, "") | {"name": f"device-{i:0{digits}}"} for i in range(1, count + 1)]


def _read_rows(manifest: Path) -> list[dict[str, str]]:
    """Return the rows of a manifest."""
    from sottovoce_bootstrap import Contact

    from sottovoce.errors import MessageRefused

    try:
        if manifest.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{manifest} is too large for a list of devices")
        reader = csv.DictReader(io.StringIO(manifest.read_text(encoding="utf-8-sig")), strict=True)
        found = list(reader)
    except (OSError, UnicodeError, csv.Error) as error:
        raise UsageError(f"{manifest} is not a list of devices ({error}): write CSV with a column `name`") from error
    unknown = set(reader.fieldnames or ()) - set(_COLUMNS)
    if unknown or "name" not in (reader.fieldnames or ()):
        raise UsageError(f"{manifest}: its first line must name columns from {', '.join(_COLUMNS)}; `name` is required")
    if not 1 <= len(found) <= _MAX_DEVICES:
        raise UsageError(f"{manifest}: lists {len(found)} devices; 1 to {_MAX_DEVICES} can be invited")
    rows = [{key: (row.get(key) or "").strip() for key in _COLUMNS} for row in found]
    seen: set[str] = set()
    for line, row in enumerate(rows, start=2):
        name, address = row["name"], row["address"]
        if None in found[line - 2] or not _NAME.fullmatch(name) or name in seen:
            raise UsageError(
                f"{manifest}, line {line}: {name!r} is not a valid device name, or appears twice: use up to 64 "
                "letters, digits, `-` and `_`"
            )
        seen.add(name)
        if row["id"]:
            raise UsageError(
                f"{manifest}, line {line}: {name} has been invited: list new devices in a file of their own"
            )
        try:
            if address:
                Contact("a" * 32, (address,))
        except MessageRefused as error:
            raise UsageError(f"{manifest}, line {line}: {error}; write HOST:PORT or mqtt:REALM") from error
    return rows


def _format_rows(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
