"""Options that several `sottovoce fleet` commands share, and functions that read their values."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.identity import Validity

FleetDirectory = Annotated[Path, typer.Option("--fleet", help="The fleet's directory, with its key.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="The device's state directory.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Total ε that one privacy unit of a device may ever cost.  [default: 2]")
]
Delta = Annotated[float | None, typer.Option(help="Total δ of the budget.  [default: 1e-5]")]
Neighbouring = Annotated[
    Literal["add-remove", "replace-one"] | None,
    typer.Option(help="Neighbouring relation: in what two data sets may differ.  [default: add-remove]"),
]
Unit = Annotated[
    Literal["record", "window", "device"] | None,
    typer.Option(help="The privacy unit, as in privacy.unit.  [default: record]"),
]
Valid = Annotated[str | None, typer.Option("--valid", help="Lifetime of the certificate, for example 90d.")]


def check_budget(epsilon: float | None, delta: float | None) -> None:
    """Raise UsageError for an ε or a δ that promises nothing."""
    if not (epsilon is None or 0 < epsilon < math.inf) or not (delta is None or 0 < delta < 1):
        raise UsageError("--epsilon must be a positive number and --delta lie between 0 and 1, for example 2 and 1e-5")


def check_reachable(address: str, option: str, what: str) -> str:
    """Return an address that another device can connect to; `option` and `what` are for the error.

    Raises:
        UsageError: if it is not HOST:PORT, or does not name a particular host.
    """
    from sottovoce.config.transport import HOST_AND_PORT

    host, _, port = address.rpartition(":")
    if not re.fullmatch(HOST_AND_PORT, address) or not 1 <= int(port) <= 65_535 or host in ("0.0.0.0", "[::]"):  # noqa: S104
        raise UsageError(
            f"{option}: {address!r} is not an address where {what}; give HOST:PORT, for example 192.168.1.5:7443"
        )
    return address


def validity_of(valid: str | None) -> "Validity | None":
    """Return the validity from now on that --valid requests; None without it."""
    from sottovoce.cli.durations import seconds_of
    from sottovoce.identity import Validity

    return None if valid is None else Validity.from_now(seconds_of(valid, "--valid") / 86_400)
