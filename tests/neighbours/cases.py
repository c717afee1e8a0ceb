"""Cases to play: every learner, with all settings that decide which records its releases cover.

This module does not decide which combinations are sound: the product's own statement does. A combination called proved
is played; a combination that is refused, or not called proved, is not.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.data import Records, width
from sottovoce.errors import ConfigError, PrivacyError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.privacy.api import Status
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Ledger, SeededNoise, Vault

FEATURES, CLASSES = 3, 2
HIDDEN = 60
"""Units of the models whose releases have hundreds of numbers."""

WINDOWS = (10, 15)
UNITS, RELATIONS = ("record", "window", "device"), ("add-remove", "replace-one")

_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "sampling": [{}, {"sampling": "full"}, {"sampling": "poisson"}],
    "clipping": [{}, {"clipping": "decay"}, {"clipping": "quantile"}, {"clipping": "automatic"}],
    "chains": [{}, {"passes": 1}, {"batch": 8}, {"release_every": 2, "batch": 3},
               {"controller": "always-global", "batch": 4},
               {"release_every": 2, "passes": 2, "regularisation": 0.01, "batch": 2}],
    "records": [{}, {"perturbation": "laplace"}, {"perturbation": "privunit"}, {"perturbation": "krr-privunit"},
                {"fidelity": "paper"}],
    "profiles": [{}, {"harmonics": 1, "shape_clip": 0.5}, {"prior": (0.3, -1.0, 2.0, 0.1)},
                 {"harmonics": 1, "shape_clip": 0.5, "prior": (0.3, -1.0, 2.0, 0.1)},
                 {"products": ("monthly-profile", "flags", "annual-quantiles", "daily-means")},
                 {"products": ("flags", "daily-means"), "shares": (0.9, 0.1), "flags": ("ev",), "fleet_size": 1000}],
    "visits": [{}, {"budget": "k-times", "visits": 3}, {"budget": "halving", "visits": 3}, {"fidelity": "paper"}],
}  # fmt: skip
_GROUP_BY_KEY = {"sampling": "sampling", "clipping": "clipping", "passes": "chains", "perturbation": "records",
                 "harmonics": "profiles", "visits": "visits"}  # fmt: skip
"""Group of options that apply to a learner that has this key."""
_DATA_KEYS = ("expected_records", "transform")


@dataclass(frozen=True)
class Case:
    """Combination of options, unit and relation.

    Attributes:
        learner: options of the learner, including its name.
        unit: privacy unit.
        neighbouring: neighbouring relation.
    """

    learner: tuple[tuple[str, Any], ...]
    unit: str
    neighbouring: str

    @property
    def name(self) -> str:
        """Readable name of the case."""
        options_text = ",".join(f"{key}={value}" for key, value in self.learner if key != "name")
        parts = (dict(self.learner)["name"], options_text, self.unit, self.neighbouring)
        return " ".join(part for part in parts if part)

    @property
    def combination(self) -> tuple[str, str, str, str]:
        """Learner, sampling, unit and relation; cases that differ only in other options are variants."""
        learner = dict(self.learner)
        return learner["name"], learner.get("sampling", ""), self.unit, self.neighbouring

    @property
    def is_of_days(self) -> bool:
        """Whether the vector is computed from days of loads over a year."""
        return "products" in dict(self.learner)

    @property
    def features(self) -> int:
        """Number of columns of a record."""
        return 48 if self.is_of_days else FEATURES

    @property
    def windows(self) -> tuple[int, int]:
        """The first and the last declared window."""
        return (WINDOWS[0], WINDOWS[0] + 364) if self.is_of_days else WINDOWS

    @property
    def enrolled(self) -> bool:
        """Whether the case numbers its records one by one."""
        learner = dict(self.learner)
        chains = learner.get("release_every", 1) != 1 or learner.get("controller") == "always-global"
        return learner["name"] == "golf" or chains

    def config(self, **changed: Any) -> AgentConfig:
        """Return the configuration of the case, with changed keys of [learner], `expected_records` or `transform`."""
        return _config(self, tuple(sorted(changed.items())))


@lru_cache(maxsize=4096)
def _config(case: Case, changed: tuple[tuple[str, Any], ...]) -> AgentConfig:
    changes = dict(changed)
    learner = {**dict(case.learner), **{key: value for key, value in changes.items() if key not in _DATA_KEYS}}
    if learner["name"] == "pdsl":
        learner = {"shapley": "cosine", **learner}
    noise = learner.pop("noise", None)
    data: dict[str, Any] = {"source": "digits", "features": case.features, "classes": CLASSES}
    uses_batches = "sampling" in learner or ALGORITHMS[learner["name"]].mutual
    data["expected_records"] = float(changes.get("expected_records", 256 if uses_batches else 24))
    if "transform" in changes:
        data["transform"] = changes["transform"]
    if case.is_of_days:
        data["transform"] = "none"
    if case.unit != "record":  # so that windows can also arrive one by one
        data["windows"] = list(case.windows)
    settings = {
        "agent": {"state": "."},
        "data": data,
        "learner": learner,
        "privacy": {
            "unit": case.unit,
            "neighbouring": case.neighbouring,
            "epsilon": 1.0,
            **({"noise": noise} if noise else {}),
        },
        "membership": {"sampling": "static"},
    }
    return config_from_tables(settings, "case")


def cases() -> Iterator[Case]:
    """Yield every combination, proved or not."""
    for name, algorithm in ALGORITHMS.items():
        # The thresholds of adad2p and constd2p are clipd2p's with other defaults.
        groups_of_learner = [group for key, group in _GROUP_BY_KEY.items() if key in algorithm.keys]
        group_names = ("sampling",) if name in ("adad2p", "constd2p") else groups_of_learner
        groups = [_OPTIONS[group] for group in group_names]
        learner_options = [
            {key: value for part in options for key, value in part.items()} for options in itertools.product(*groups)
        ]
        if algorithm.models[0] == "softmax" and name not in ("adad2p", "constd2p"):
            learner_options += [{"model": "mlp", "hidden": HIDDEN}, {"model": "logistic"}, {"model": "pegasos"}]
        if "centre" in algorithm.keys:
            rules = [{}, {"clipping": "decay"}, {"clipping": "automatic"}] if "clipping" in algorithm.keys else [{}]
            learner_options += [{"centre": "private", **rule} for rule in rules]
        if algorithm.secure_sums == "optional":
            learner_options += [{**options, "noise": "cell"} for options in learner_options]
        for learner, unit, neighbouring in itertools.product(learner_options, UNITS, RELATIONS):
            yield Case(tuple(sorted({"name": name, **learner}.items())), unit, neighbouring)


@lru_cache(maxsize=1)
def list_proved_cases() -> tuple[Case, ...]:
    """Return the cases that the vault itself calls proved."""
    return tuple(case for case in cases() if _status(case) is Status.PROVED)


def _status(case: Case) -> Status | None:
    try:
        return empty_vault(case).statement.status
    except (ConfigError, PrivacyError):
        return None


def empty_vault(case: Case) -> Vault:
    """Return the vault of a device that runs the case and has no records.

    Raises:
        ConfigError: if the configuration refuses the combination.
        PrivacyError: if the vault refuses it.
    """
    config = case.config()
    family = build_family(config)
    columns = width(config.data.transform, case.features)
    ledger = Ledger.in_memory("no-device", required_budget(config))
    empty = Records(np.empty((0, columns)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    return build(records=empty, kernel=family.kernel, terms=family.terms, ledger=ledger, noise=SeededNoise(0))
