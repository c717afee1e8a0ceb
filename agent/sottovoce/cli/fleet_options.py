"""Options shared by several `sottovoce fleet` commands, and functions that check or convert their values."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.fleet import Validity

_SPAN = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_SECONDS = 100 * 365 * 86_400


def parse_duration(text: str, option: str) -> float:
    """Parse a duration and return it in seconds; `option` is the option's name for the error message.

    Raises:
        UsageError: if the text is not a duration, or the duration is zero or longer than 100 years.
    """
    match = _SPAN.fullmatch(text.strip())
    seconds = float(match["number"]) * _SECONDS[match["unit"]] if match else 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise UsageError(f"{option}: {text!r} is not a valid duration; use, for example, 30s, 5m, 12h or 90d")
    return seconds


FleetDirectory = Annotated[Path, typer.Option("--fleet", help="The fleet's directory, with its key.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="The device's state directory.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Total ε that a device may ever spend on one privacy unit.  [default: 2]")
]
Delta = Annotated[float | None, typer.Option(help="Total δ of the budget.  [default: 1e-5]")]
Neighbouring = Annotated[
    Literal["add-remove", "replace-one"] | None,
    typer.Option(help="Neighbouring relation: how two data sets may differ.  [default: add-remove]"),
]
Unit = Annotated[
    Literal["record", "window", "device"] | None,
    typer.Option(help="The privacy unit, as in privacy.unit.  [default: record]"),
]
Valid = Annotated[str | None, typer.Option("--valid", help="Lifetime of the certificate, for example 90d.")]


def check_budget(epsilon: float | None, delta: float | None) -> None:
    """Raise UsageError if ε or δ is outside its valid range and would promise nothing."""
    if not (epsilon is None or 0 < epsilon < math.inf) or not (delta is None or 0 < delta < 1):
        raise UsageError("--epsilon must be positive and --delta must be between 0 and 1, for example 2 and 1e-5")


def check_reachable(address: str, option: str, purpose: str) -> str:
    """Check that an address has the form HOST:PORT and is not a wildcard, and return the address.

    `option` and `purpose` appear only in the error message.

    Raises:
        UsageError: if the address is not HOST:PORT, or its host is a wildcard such as 0.0.0.0.
    """
    from sottovoce.config.transport import HOST_AND_PORT

    host, _, port = address.rpartition(":")
    if not re.fullmatch(HOST_AND_PORT, address) or not 1 <= int(port) <= 65_535 or host in ("0.0.0.0", "[::]"):  # noqa: S104
        raise UsageError(
            f"{option}: {address!r} is not a valid address for {purpose}; use HOST:PORT, for example 192.168.1.5:7443"
        )
    return address


def parse_validity(valid: str | None) -> "Validity | None":
    """Return the validity period that --valid requests, starting now; None without --valid."""
    from sottovoce.fleet import Validity

    return None if valid is None else Validity.from_now(parse_duration(valid, "--valid") / 86_400)
