"""Suggestions: each is one typo away, never farther."""

import pytest
from sottovoce.suggestions import suggest_name

KEYS = ("learner.clip", "learner.step_size", "learner.steps", "membership.period", "data.transform")


@pytest.mark.parametrize(
    "word, meant",
    [
        ("learner.cilp", "learner.clip"),
        ("lerner.clip", "learner.clip"),
        ("learner.step-size", "learner.step_size"),
        ("Learner.Steps", "learner.steps"),
        ("perod", "membership.period"),
    ],
)
def test_a_typo_is_recognised(word: str, meant: str) -> None:
    assert suggest_name(word, KEYS) == meant


@pytest.mark.parametrize("word", ["learner.lr", "learner.rate", "lr", "", "data.clip", "zzz"])
def test_anything_farther_is_not_suggested(word: str) -> None:
    assert suggest_name(word, KEYS) is None


def test_data_kinds_and_learners() -> None:
    kinds = ("digits", "breast-cancer", "idx", "csv", "meters", "npz")
    assert suggest_name("mnist", kinds) is None
    assert suggest_name("cvs", kinds) == "csv"
    assert suggest_name("sgd", ("golf", "pdsl", "clipd2p", "group-sgd")) is None
    assert suggest_name("clipdp", ("golf", "clipd2p", "constd2p")) == "clipd2p"
    assert suggest_name("anything", ()) is None
