"""Public facts in `average`'s settings."""

from typing import Any

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import Family
from sottovoce.config import config_from_tables
from sottovoce.errors import ConfigError
from sottovoce.privacy.terms.means import MeanTerms


def family(**learner: Any) -> Family:
    data = {"source": "digits", "features": 8, "classes": 2, "transform": "none", "expected_records": 1.0}
    tables = {"agent": {"state": "."}, "data": data, "learner": {"name": "average", **learner}}
    return build_family(config_from_tables({**tables, "membership": {"sampling": "static"}}, "test"))


def test_coefficients_are_released_and_the_vector_is_published() -> None:
    result = family(prior=[0.5] * 8, harmonics=2, shape_clip=0.7)
    assert isinstance(result.terms, MeanTerms)
    assert (result.terms.profile.size, result.model.size) == (5, 8)


@pytest.mark.parametrize(
    "learner, words",
    [
        ({"prior": [0.5] * 7}, r"learner\.prior.*7 values.*8 elements"),
        ({"prior": [0.5] * 7 + [float("inf")]}, r"learner\.prior.*finite"),
        ({"harmonics": 4, "shape_clip": 1.0}, r"learner\.harmonics.*8 elements.*3 harmonics"),
        ({"harmonics": 2}, r"learner\.shape_clip.*required"),
        ({"shape_clip": 2.0}, r"learner\.shape_clip.*without"),
    ],
)
def test_contradictory_settings_are_refused_by_name(learner: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        family(**learner)


HOMES = {"features": 48, "windows": [20_089, 20_453]}


def of_homes(data: dict[str, Any] | None = None, **learner: Any) -> Family:
    tables = {
        "agent": {"state": "."},
        "data": {
            "source": "digits",
            "classes": 2,
            "transform": "none",
            "expected_records": 1.0,
            **HOMES,
            **(data or {}),
        },
        "learner": {"name": "average", **learner},
        "membership": {"sampling": "static"},
    }
    return build_family(config_from_tables(tables, "test"))


def test_products_are_one_vector_of_length_one() -> None:
    result = of_homes(products=["monthly-profile", "flags"], shares=[0.3, 0.1], flags=["ev"])
    assert isinstance(result.terms, MeanTerms)
    profile = result.terms.profile
    assert (profile.size, result.model.size, profile.bound) == (14, 14, 1.0)
    assert profile.shares == pytest.approx((0.75, 0.25))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "learner, data, words",
    [
        ({"products": ["weekly-profile"]}, {}, r"learner\.products.*weekly-profile.*monthly-profile"),
        ({"products": ["flags", "flags"]}, {}, r"learner\.products.*once"),
        ({"products": ["flags"], "flags": ["heat-pump"]}, {}, r"learner\.flags.*heat-pump.*pv"),
        ({"products": ["flags"], "flags": []}, {}, r"learner\.flags.*at least one"),
        ({"products": ["flags"], "shares": [0.5, 0.5]}, {}, r"learner\.shares.*2.*1"),
        ({"products": ["flags"], "public": "mars"}, {}, r"learner\.public.*mars.*gb-1"),
        ({"products": ["flags"], "fleet_size": 500}, {}, r"learner\.fleet_size.*300"),
        ({"products": ["flags"], "harmonics": 3, "shape_clip": 1.0}, {}, r"learner\.products.*harmonics"),
        ({"products": ["flags"]}, {"windows": [20_089, 20_300]}, r"data\.windows.*365"),
        ({"products": ["flags"]}, {"features": 24}, r"learner\.products.*data\.features.*48"),
        ({"products": ["flags"]}, {"transform": "unit"}, r"learner\.products.*data\.transform"),
    ],
)
def test_products_that_cannot_be_computed_are_refused_by_name(
    learner: dict[str, Any], data: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        of_homes(data, **learner)
