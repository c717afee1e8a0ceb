"""A device owner's policy for the fleet's tasks, which the vault enforces."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from sottovoce.errors import ConfigError, TaskRefused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.ledger.limits import RenewalInterval, Span

Unit = Literal["record", "window", "device"]


class Policy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The owner's policy, read from `policy.toml`. Without a policy, every task within the ledger's budget is allowed.

    Attributes:
        approve: with `ask`, a task waits until the owner approves it; with `auto`, it does not. The key is required,
            so an incomplete file is not a valid policy.
        algorithms: names of the allowed algorithms.
        units: privacy units that a task may promise to protect.
        purposes: the allowed purposes, word for word; if set, a task without a purpose is refused.
        epsilon: largest ε that one task may spend; a task that requests more is limited to this amount.
        smallest_cell: tasks whose devices share their noise in secure sums are allowed if each sum includes at least
            this number of devices; without this key, no such task is allowed.
        colluding: smallest number of colluding devices that such a task must tolerate.
        epsilon_per_month: largest ε that all tasks together may spend in 30 days of the vault's running time.
        epsilon_per_year: largest ε that all tasks together may spend in 365 days of the vault's running time.
        renews: with `year`, the ledger's budget is renewed in each period that the fleet's tasks open, at least a year
            of running time apart; with `never`, it is not renewed.
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
    renews: RenewalInterval = "never"

    @property
    def limits(self) -> dict[Span, float]:
        """ε that all tasks together may spend in each span of time."""
        limits: dict[Span, float | None] = {"month": self.epsilon_per_month, "year": self.epsilon_per_year}
        return {span: epsilon for span, epsilon in limits.items() if epsilon is not None}

    def check(self, *, algorithm: str, unit: str, purpose: str, cell: Cell | None) -> None:
        """Check that the owner's policy allows a task.

        Raises:
            TaskRefused: if the policy does not allow the task.
        """
        for name, allowed, value in (
            ("algorithms", self.algorithms, algorithm),
            ("units", self.units, unit),
            ("purposes", self.purposes, purpose),
        ):
            if allowed is not None and value not in allowed:
                raise TaskRefused(
                    f"the owner's policy allows only these values of {name}: {', '.join(allowed) or 'none'}; this "
                    f"task's is {value or 'not specified'}"
                )
        if cell is not None:
            self._check_cell(cell)

    def _check_cell(self, cell: Cell) -> None:
        if self.smallest_cell is None:
            raise TaskRefused(
                "in this task, a device relies on other devices' noise, which the owner's policy does not "
                "allow; to allow it, set smallest_cell to the smallest number of devices in a sum"
            )
        if cell.least < self.smallest_cell or cell.colluding < self.colluding:
            raise TaskRefused(
                f"the owner's policy requires secure sums of at least {self.smallest_cell} devices that tolerate at "
                f"least {self.colluding} colluding ones, but this task's sums may have only {cell.least} devices and "
                f"tolerate {cell.colluding}"
            )


def read_policy(path: Path | None) -> Policy:
    """Read the policy from a file; without a file, return a policy that allows every task.

    Raises:
        ConfigError: if the file cannot be read, or does not contain a valid policy.
    """
    if path is None:
        return Policy(approve="auto")
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Policy)
    except OSError as error:
        raise ConfigError(
            f"vault.policy: {path}: cannot read the file ({error.strerror}); specify a readable file"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        keys = ", ".join(Policy.__struct_fields__)
        raise ConfigError(f"vault.policy: {path}: {error}; valid policy keys are {keys}") from error
