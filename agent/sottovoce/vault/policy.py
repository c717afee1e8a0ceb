"""Policy of a device's owner for the fleet's tasks: the task proposes, and the vault enforces the policy."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from sottovoce.cell import Cell
from sottovoce.errors import ConfigError, TaskRefused
from sottovoce.vault.limits import Span
from sottovoce.vault.periods import Renews

Unit = Literal["record", "window", "device"]


class Policy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Policy of the owner, `policy.toml`. Without it, every task that keeps to the ledger's own budget is allowed.

    Attributes:
        approve: `ask`: a task waits until the owner approves it. This key is required: half a file is no policy.
        algorithms: names of the allowed algorithms.
        units: units for which a task may make a promise.
        purposes: the allowed purposes, word for word; if they are set, a task that names no purpose is refused.
        epsilon: the most that one task may spend; a task that asks for more gets this amount.
        smallest_cell: tasks whose devices share their noise in secure sums are allowed if each sum is over at least
            this many devices; without this key no such task is allowed.
        colluding: smallest number of colluding devices that such a task must allow for.
        epsilon_per_month: the most that all tasks together may spend in 30 days of the vault's life.
        epsilon_per_year: the most that all tasks together may spend in 365 days of the vault's life.
        renews: `year`: the ledger's budget is renewed in each period that the fleet's tasks open, a year apart.
    """

    approve: Literal["auto", "ask"]
    algorithms: tuple[str, ...] | None = None
    units: tuple[Unit, ...] | None = None
    purposes: tuple[str, ...] | None = None
    epsilon: Annotated[float, Meta(gt=0)] | None = None
    smallest_cell: Annotated[int, Meta(ge=2)] | None = None
    colluding: Annotated[int, Meta(ge=0)] = 1
    epsilon_per_month: Annotated[float, Meta(gt=0)] | None = None
    epsilon_per_year: Annotated[float, Meta(gt=0)] | None = None
    renews: Renews = "never"

    @property
    def limits(self) -> dict[Span, float]:
        """ε that all tasks together may spend, by span of time."""
        found: dict[Span, float | None] = {"month": self.epsilon_per_month, "year": self.epsilon_per_year}
        return {span: epsilon for span, epsilon in found.items() if epsilon is not None}

    def check(self, *, algorithm: str, unit: str, purpose: str, cell: Cell | None) -> None:
        """Refuse a task that the owner does not allow.

        Raises:
            TaskRefused: if the policy does not allow it.
        """
        for what, allowed, found in (
            ("algorithms", self.algorithms, algorithm),
            ("units", self.units, unit),
            ("purposes", self.purposes, purpose),
        ):
            if allowed is not None and found not in allowed:
                raise TaskRefused(
                    f"the owner's policy allows the {what} {', '.join(allowed) or 'none'}, and this task's is "
                    f"{found or 'not named'}"
                )
        if cell is not None:
            self._check_cell(cell)

    def _check_cell(self, cell: Cell) -> None:
        if self.smallest_cell is None:
            raise TaskRefused(
                "in this task a device relies on the noise of others, which the owner's policy does not allow: "
                "smallest_cell would set the smallest number of devices"
            )
        if cell.least < self.smallest_cell or cell.colluding < self.colluding:
            raise TaskRefused(
                f"the owner's policy allows secure sums of {self.smallest_cell} devices or more, {self.colluding} or "
                f"more of which may collude, but this task's are of {cell.least} devices, {cell.colluding} of which "
                "may collude"
            )


def read_policy(path: Path | None) -> Policy:
    """Read the policy in a file; without a file, return the policy that allows every task.

    Raises:
        ConfigError: if it cannot be read, or is not a policy.
    """
    if path is None:
        return Policy(approve="auto")
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Policy)
    except OSError as error:
        raise ConfigError(
            f"vault.policy: {path}: cannot be read ({error.strerror}); name a file that is there"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        known = ", ".join(Policy.__struct_fields__)
        raise ConfigError(f"vault.policy: {path}: {error}; its keys are {known}") from error
