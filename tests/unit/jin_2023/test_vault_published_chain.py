"""Jin, He & Dai 2023 as published, in the vault: reference vectors, noise as printed, and each controller action."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels.binary import Logistic
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused, Status
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise, Vault
from sottovoce_lab.published.chains import PublishedChainTerms, QChainTerms
from sottovoce_lab.published.terms import Claim
from sottovoce_papers.jin_2023.private.lemmas import SmoothLoss, chain_sensitivity
from sottovoce_papers.jin_2023.private.steps import StepSizes
from sottovoce_papers.jin_2023.private.terms import ChainTerms

NAME, ETA = "without-replacement", 0.1
LOCAL, LATEST = np.array([0.5, -0.25]), np.array([0.1, 0.2])
PAIR = np.array([[0.6, 0.8], [0.8, -0.6]]), np.array([1, 0])  # labels +1 and -1
CLAIM = Claim("noise", "parallel", 1.0, 2.8e-10, True, "refuted: see docs")
PUBLISHED_TERMS = PublishedChainTerms(
    NAME, CLAIM, StepSizes(ETA), batch=2, period=1, passes=1, multiplier=0.0, lipschitz=1.0
)
Q_TERMS = QChainTerms(
    NAME, CLAIM, StepSizes(ETA), batch=2, passes=1, multiplier=0.0, lipschitz=1.0, exploration_steps=4
)  # fmt: skip


def pairs(count: int) -> Records:
    return Records(np.tile(PAIR[0], (count, 1)), np.tile(PAIR[1], count))


class RecordingObserver:
    """Implements sottovoce.privacy.vault.Observer."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []

    def record_computed(self, query: Query, facts: dict[str, Any]) -> None:
        self.facts.append({"kind": query.kind, "slot": query.slot, **facts})


def make_vault(
    terms: Any, records: Records, *, promised: float | None = None, observer: RecordingObserver | None = None
) -> Vault:
    ledger = Ledger.in_memory("meter-17", Budget(promised, 1e-5, "record", "replace-one"))
    kernel, noise = Logistic(2, 2), SeededNoise(3)
    return build(records=records, kernel=kernel, terms=terms, ledger=ledger, noise=noise, observer=observer)


def answer_values(vault: Vault, kind: str, slot: int, *points: NDArray[np.float64]) -> NDArray[np.float64]:
    answer = vault.answer(Query(NAME, kind, slot, np.concatenate(points)))
    assert not isinstance(answer, Refused), answer
    result: NDArray[np.float64] = answer.value.astype(np.float64) * answer.step
    return result


@pytest.mark.parametrize("terms", [PUBLISHED_TERMS, ChainTerms(NAME, ETA, 2, 1, 1)])
def test_a_global_step_matches_the_reference(terms: Any) -> None:
    end = answer_values(make_vault(terms, pairs(1)), "chain", 0, LOCAL, LATEST)
    noise = np.array([0.3, -0.1])
    assert end - ETA * noise == pytest.approx([0.2637565696, 0.0175088706], abs=2.0**-24)


def test_a_local_step_matches_the_reference() -> None:
    observer = RecordingObserver()
    answer_values(make_vault(ChainTerms(NAME, ETA, 2, 2, 1), pairs(2), observer=observer), "chain", 0, LOCAL, LATEST)
    assert observer.facts[0]["local_before"] == LOCAL.tolist()
    assert observer.facts[0]["local_after"] == pytest.approx([0.4777704015, -0.1739501995], rel=1e-9)


def test_sensitivity_and_noise_match_the_references() -> None:
    bound = chain_sensitivity(SmoothLoss(1.0, 1.0), step_size=ETA, batch=50, steps=9, neighbouring="replace-one")
    assert bound == pytest.approx(0.004)
    multiplier = math.sqrt(2 * math.log(1.25 / (1 / 60000**2)))
    terms = PublishedChainTerms(NAME, CLAIM, StepSizes(ETA), 50, 9, 1, multiplier, 1.0)
    assert terms.deviation(1) == pytest.approx(0.0266697, rel=1e-3)
    printed = PublishedChainTerms(NAME, CLAIM, StepSizes(None, 0.05, 1e-4), 50, 1, 1, multiplier, 2.0)
    assert printed.deviation(1) == pytest.approx(4 * 2e5 * multiplier / 50), "the paper's first step is 200,000"


def test_noise_is_added_as_printed_and_charged_as_infinite() -> None:
    ledger = Ledger.in_memory("meter-17", Budget(None, 1e-5, "record", "replace-one"))
    terms = PublishedChainTerms(NAME, CLAIM, StepSizes(ETA), 2, 1, 1, 5.0, 1.0)
    records = Records(np.zeros((2000, 2)), np.zeros(2000, dtype=np.int64))
    vault = build(records=records, kernel=Softmax(2, 2), terms=terms, ledger=ledger, noise=OperatingSystemNoise())
    drawn = [answer_values(vault, "chain", slot, np.zeros(8)) for slot in range(1000)]
    assert np.std(drawn) == pytest.approx(5.0 * 2 * ETA / 2, rel=0.06)
    assert (vault.statement.status, vault.statement.epsilon) == (Status.REFUTED, 1.0)
    assert ledger.spending().promised_epsilon is None


def test_decisions_are_reported_with_all_their_inputs() -> None:
    observer = RecordingObserver()
    vault = make_vault(Q_TERMS, pairs(40), observer=observer)
    last_release, slot = LOCAL, 0
    actions = []
    while slot < 40:
        action = int(answer_values(vault, "decide", slot, last_release)[0])
        actions.append(action)
        if action:
            last_release = answer_values(vault, "chain", slot, last_release, LATEST)
        slot += 1
    assert set(actions) == {0, 1}
    decisions = [facts for facts in observer.facts if facts["kind"] == "decide"]
    assert decisions[0]["loss"] == pytest.approx(0.8249445708, rel=1e-9)
    assert decisions[0]["state"] == [*LOCAL, decisions[0]["loss"]]
    assert decisions[0]["reward"] is None
    assert decisions[7]["batch"] == [14, 15]
    for earlier, later, action in zip(decisions, decisions[1:], actions, strict=False):
        before = np.array(later["local_before"])
        if not action:
            assert earlier["action"] == "local"
            assert later["local_before"] == earlier["local_after"] != earlier["local_before"]
        else:
            assert earlier["local_after"] == earlier["local_before"], "the step is the global step"
        margins = PAIR[0] @ before * np.array([1, -1])
        assert later["reward"] == pytest.approx(-np.log1p(np.exp(-margins)).mean())
        assert later["replay"][-1]["state"] == earlier["state"]
        assert later["replay"][-1]["next"] == later["state"]
        assert later["replay"][-1]["reward"] == later["reward"]
    assert [facts["learnt"] is None for facts in decisions] == [True] * 10 + [False] * 30
    assert len(decisions[-1]["replay"]) == 20
    for facts in decisions[10:]:
        learnt, replay = facts["learnt"], {transition["number"]: transition for transition in facts["replay"]}
        assert set(learnt["transitions"]) <= set(replay)
        assert len(learnt["targets"]) == len(learnt["predictions"]) == 10
    assert decisions[0]["exploration"] == 1.0
    assert decisions[-1]["exploration"] == pytest.approx(0.1)


def test_a_chain_after_local_steps_continues_from_the_private_model() -> None:
    observer = RecordingObserver()
    vault = make_vault(Q_TERMS, pairs(40), observer=observer)
    slot = next(slot for slot in range(40) if answer_values(vault, "decide", slot, LOCAL)[0])
    end = answer_values(vault, "chain", slot, LOCAL, LATEST)
    steps = sum(facts.get("action") == "local" for facts in observer.facts)
    local, targets = LOCAL.copy(), np.array([1, -1])
    for _ in range(steps):
        slopes = -targets / (1 + np.exp(targets * (PAIR[0] @ local)))
        local -= 2 * ETA * slopes @ PAIR[0] / 2
    assert observer.facts[-1]["local_before"] == pytest.approx(local)
    assert end - np.array([0.2937565696, 0.0075088706]) == pytest.approx((local - LOCAL) / 2, abs=2.0**-23)


@pytest.mark.parametrize(
    "kind, slot, point",
    [
        ("gradient", 0, LOCAL),
        ("decide", -1, LOCAL),
        ("decide", 0, np.zeros(3)),
        ("decide", 0, LOCAL + math.nan),
        ("chain", 0, LOCAL),
        ("decide", 5, LOCAL),
    ],
)
def test_other_queries_are_refused(kind: str, slot: int, point: NDArray[np.float64]) -> None:
    vault = make_vault(Q_TERMS, pairs(5))
    assert isinstance(vault.answer(Query(NAME, kind, slot, point)), Refused)
    assert vault.spending().charges == 0


@pytest.mark.parametrize("terms", [PUBLISHED_TERMS, Q_TERMS])
def test_paper_fidelity_guarantees_nothing(terms: Any) -> None:
    with pytest.raises(PrivacyError, match="sound"):
        make_vault(terms, pairs(5), promised=1.0)
    with pytest.raises(DataError, match="few"):
        make_vault(terms, Records(np.zeros((1, 2)), np.zeros(1, dtype=np.int64)))
