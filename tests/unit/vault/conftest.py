"""A small device: twelve records with three features, a budget, and vaults over its ledger."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault
from sottovoce.privacy.vault.programs.gradient import GradientSum

OWNER = "meter-17"
KERNEL = Softmax(3, 4)


@pytest.fixture
def budget() -> Budget:
    return Budget(2.0, 1e-5, "record", "add-remove")


@pytest.fixture
def path(tmp_path: Path, budget: Budget) -> Path:
    """Path of a ledger that was created and never opened."""
    location = tmp_path / "ledger.db"
    Ledger.create(location, OWNER, budget)
    return location


@pytest.fixture
def records() -> Records:
    rng = np.random.default_rng(7)
    return Records(rng.normal(size=(12, 3)), rng.integers(0, 4, 12))


MakeVault = Callable[..., Vault]


@pytest.fixture
def make_vault(records: Records, path: Path, budget: Budget) -> Iterator[MakeVault]:
    """Makes vaults, and closes the last one at the end."""
    created: list[Vault] = []

    def make(
        *,
        noise: NoiseSource | None = None,
        ledger: Ledger | None = None,
        releases: int = 3,
        clip: float | None = 1.0,
        learner: str = "clipd2p",
        device_records: Records | None = None,
        kernel: Softmax = KERNEL,
    ) -> Vault:
        vault = build(
            records=records if device_records is None else device_records,
            kernel=kernel,
            terms=GradientTerms(learner, releases, clip),
            ledger=ledger or Ledger.open(path, OWNER, budget),
            noise=noise or OperatingSystemNoise(),
        )
        created.append(vault)
        return vault

    yield make
    for vault in created:
        vault.close()


@pytest.fixture
def read_windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the windows of the records that enter gradient sums, record by record."""
    windows: list[int] = []
    compute = GradientSum.compute

    def compute_and_record(self: GradientSum, query: Query, records: Records) -> Batches:
        assert records.windows is not None
        windows.extend(records.windows.tolist())
        return compute(self, query, records)

    monkeypatch.setattr(GradientSum, "compute", compute_and_record)
    return windows
