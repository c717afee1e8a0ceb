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
