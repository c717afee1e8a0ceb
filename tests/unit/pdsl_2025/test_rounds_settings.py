"""Requirements of learners in rounds: fixed neighbours, and public records if models are scored."""

from typing import Any

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import Family
from sottovoce.config import config_from_tables
from sottovoce.errors import ConfigError
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce_lab.testbed.unsigned import UnsignedProvenance


def family(peers: int = 2, public: str | None = "digits", sampling: str = "static", **learner: Any) -> Family:
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {"source": "digits", "features": 64, "classes": 10, "expected_records": 180.0},
        "learner": {"name": "pdsl", "steps": 20, **learner},
        "membership": {"sampling": sampling},
        "transport": {
            "peers": [{"id": "a" * 31 + "bcdefghijklmnop"[i], "address": f"10.0.0.{i}:1"} for i in range(peers)]
        },
    }
    if public is not None:
        tables["data"]["public"] = public
    return build_family(config_from_tables(tables, "test"))


def releases(found: Family) -> int:
    assert isinstance(found.terms, GradientTerms)
    return found.terms.releases


@pytest.mark.parametrize(
    "settings, count",
    [
        ({}, 60),
        ({"answers": 2}, 40),
        ({"name": "dp-cga"}, 20),
        ({"name": "dp-cga", "answers": "all"}, 60),
        ({"name": "dp-dpsgd"}, 20),
        ({"name": "muffliato", "gossip_steps": 9}, 20),
        ({"name": "dp-net-fleet", "local_steps": 4}, 80),
    ],
)
def test_the_budget_is_divided_among_all_answers_in_the_run(settings: dict[str, Any], count: int) -> None:
    assert releases(family(**settings)) == count


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"public": None}, r"data\.public.*learner\.shapley=cosine"),
        ({"public": None, "shapley": "monte-carlo"}, r"data\.public"),
        ({"sampling": "newscast"}, '"static"'),
        ({"peers": 12}, "11 neighbours"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        family(**settings).learner("me", UnsignedProvenance(), ())


def test_cosine_weights_need_no_public_records() -> None:
    learner, _ = family(public=None, shapley="cosine", peers=12).learner("me", UnsignedProvenance(), ())
    assert learner.progress(learner.initial_state()).steps == 20


def test_acceleration_needs_the_spectral_gap() -> None:
    with pytest.raises(ConfigError, match="spectral_gap"):
        family(name="muffliato", chebyshev=True)
