"""Audit of every learner as shipped: none is refuted."""

import json

import pytest
from sottovoce_lab.auditor import LEARNERS, audit

pytestmark = pytest.mark.slow

LONG = {"pdsl", "dp-cga", "muffliato", "dp-net-fleet"}  # in rounds, like dp-dpsgd
TRIALS = 100


@pytest.mark.parametrize(
    "name, fidelity",
    [pytest.param(*of, id="-".join(of), marks=[pytest.mark.soak] if of[0] in LONG else []) for of in LEARNERS],
)
def test_every_learner_is_audited(name: str, fidelity: str) -> None:
    outcome = audit("learner", name, fidelity=fidelity, trials=TRIALS)
    result = outcome.as_dict()
    assert json.loads(json.dumps(result)) == result
    refuted = [finding.as_dict() for finding in outcome.findings if finding.refuted]
    assert refuted == [], "at most one in a million audits refutes a sound learner"
    assert outcome.verdict == ("no claim" if name == "push-sum" else f"not refuted at {TRIALS} trials")
    assert (result["seen"], result["epsilon_stated"]) == ("wire", None if name == "push-sum" else 2.0)
