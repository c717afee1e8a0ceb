"""Terms of variants with fidelity `paper`: the papers' noise, and each claim's status."""

import math
from typing import Any

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.config import config_from_tables
from sottovoce.errors import ConfigError
from sottovoce_lab.published.chains import PublishedChainTerms, QChainTerms
from sottovoce_lab.published.terms import PublishedTerms

_EPSILON, _DELTA = 0.5, 1e-5


def _terms(learner: dict[str, Any], classes: int = 10, **privacy: Any) -> Any:
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {"source": "digits", "features": 64, "classes": classes, "expected_records": 200.0, "public": "digits"},
        "learner": {"fidelity": "paper", **learner},
        "membership": {"sampling": "static"},
        "privacy": {"epsilon": _EPSILON, "delta": _DELTA, "allow_unproved": True, **privacy},
        "transport": {"peers": [{"id": "a" * 31 + end, "address": f"10.0.0.{end}:1"} for end in "23"]},
    }
    return build_family(config_from_tables(tables, "test")).terms


@pytest.mark.parametrize(
    "learner, distance, answers, words",
    [
        ("pdsl", 2 * 0.5, 3, "the batch gradient is clipped as a whole"),
        ("dp-cga", 2 * 0.5, 3, "the batch gradient is clipped as a whole"),
        ("dp-dpsgd", 2 * 0.5 / 20, 1, "nothing is clipped"),
        ("muffliato", 2 * 0.5 / 20, 1, "network amplification is not claimed"),
        ("dp-net-fleet", 2 * 0.5 / 20, 2, "a step uses two gradients"),
    ],
)
@pytest.mark.parametrize("per, share", [("round", 1), ("total", 7)])
def test_rounds_use_the_classical_noise_and_report_the_total(
    learner: str, distance: float, answers: int, words: str, per: str, share: int
) -> None:
    own = {"local_steps": 2} if learner == "dp-net-fleet" else {}
    keys = {"name": learner, "steps": 7, "batch": 20, "clip": 0.5, "sampling": "poisson", **own}
    terms = _terms(keys, epsilon_per=per)
    assert isinstance(terms, PublishedTerms)
    classical = math.sqrt(2 * math.log(1.25 * share / _DELTA)) * share / _EPSILON
    assert terms.sigma == pytest.approx(distance * classical)
    assert words in terms.claim.reason
    assert f"all {7 * answers} releases of 7 rounds" in terms.claim.reason
    assert not terms.claim.is_refuted


def test_a_convex_model_with_a_public_schedule_and_a_small_ε_is_as_published() -> None:
    terms = _terms({"name": "without-replacement", "model": "softmax", "batch": 20})
    assert isinstance(terms, PublishedChainTerms)
    assert not terms.claim.is_refuted
    assert terms.claim.reason.startswith("as published")
    assert terms.multiplier == pytest.approx(math.sqrt(2 * math.log(1.25 / _DELTA)) / _EPSILON)
    assert terms.lipschitz == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    "learner, classes, privacy, words",
    [
        ({"controller": "deep-q"}, 2, {}, "the actions are chosen from noise-free losses"),
        ({"regularisation": 0.01}, 2, {}, "the theorem covers a single model"),
        ({"model": "logistic"}, 10, {}, "the theorem covers a single model"),
        ({"model": "softmax"}, 10, {"epsilon": 20.0}, "above 9.75 is under-protected"),
    ],
)
def test_cases_beyond_the_theorem_are_refuted(
    learner: dict[str, Any], classes: int, privacy: dict[str, Any], words: str
) -> None:
    terms = _terms({"name": "without-replacement", "batch": 20, **learner}, classes, **privacy)
    assert isinstance(terms, QChainTerms if "controller" in learner else PublishedChainTerms)
    assert terms.claim.is_refuted
    assert words in terms.claim.reason


def test_with_replacement_charges_five_visits_and_is_refuted() -> None:
    terms = _terms({"name": "with-replacement", "batch": 20, "model": "logistic"}, classes=2)
    assert isinstance(terms, PublishedTerms)
    assert terms.sigma == pytest.approx(2 / 20 * math.sqrt(2 * math.log(6.25 / _DELTA)) / (_EPSILON / 5))
    assert terms.claim.is_refuted
    assert "i.i.d. draws select some record 15 times" in terms.claim.reason


@pytest.mark.parametrize("learner", ["adad2p", "pdsl", "without-replacement"])
def test_a_device_without_the_lab_refuses_a_variant_as_published(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.algorithms.published.is_installed", lambda _: False)
    with pytest.raises(ConfigError, match=f'"paper" variant of {learner} .*sottovoce-lab.*remove the key, or run pip'):
        _terms({"name": learner})
    assert _terms({"name": learner, "fidelity": "sound"}).learner == learner
