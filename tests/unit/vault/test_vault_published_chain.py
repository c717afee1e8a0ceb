"""Jin, He & Dai 2023 as published, in the vault: reference vectors, noise as printed, and each controller action."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.door import Query, Refused, Status
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels.binary import Logistic
from sottovoce.kernels.softmax import Softmax
from sottovoce.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise, Vault, build
from sottovoce.vault.lemmas import SmoothLoss, chain_sensitivity
from sottovoce.vault.programs.chain_steps import StepSizes
from sottovoce.vault.terms.chains import ChainTerms, PublishedChainTerms
from sottovoce.vault.terms.published import Claim
from sottovoce.vault.terms.q_chains import QChainTerms

NAME, ETA = "without-replacement", 0.1
LOCAL, LATEST = np.array([0.5, -0.25]), np.array([0.1, 0.2])
PAIR = np.array([[0.6, 0.8], [0.8, -0.6]]), np.array([1, 0])  # labels +1 and -1
CLAIM = Claim("noise", "parallel", 1.0, 2.8e-10, True, "refuted: see docs")
LETTER = PublishedChainTerms(NAME, CLAIM, StepSizes(ETA), batch=2, period=1, passes=1, multiplier=0.0, lipschitz=1.0)
Q = QChainTerms(
    NAME, CLAIM, StepSizes(ETA), batch=2, passes=1, multiplier=0.0, lipschitz=1.0, exploration_steps=4
)  # fmt: skip


def pairs(count: int) -> Records:
    return Records(np.tile(PAIR[0], (count, 1)), np.tile(PAIR[1], count))


class Looker:
    """Implements sottovoce.vault.Observer."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []

    def computed(self, query: Query, facts: dict[str, Any]) -> None:
        self.facts.append({"kind": query.kind, "slot": query.slot, **facts})


def vault(terms: Any, held: Records, *, promised: float | None = None, observer: Looker | None = None) -> Vault:
    ledger = Ledger.in_memory("meter-17", Budget(promised, 1e-5, "record", "replace-one"))
    kernel, noise = Logistic(2, 2), SeededNoise(3)
    return build(records=held, kernel=kernel, terms=terms, ledger=ledger, noise=noise, observer=observer)


def answer_values(made: Vault, kind: str, slot: int, *points: NDArray[np.float64]) -> NDArray[np.float64]:
    answer = made.answer(Query(NAME, kind, slot, np.concatenate(points)))
    assert not isinstance(answer, Refused), answer
    result: NDArray[np.float64] = answer.value.astype(np.float64) * answer.step
    return result


@pytest.mark.parametrize("terms", [LETTER, ChainTerms(NAME, ETA, 2, 1, 1)])
def test_a_global_step_matches_the_reference(terms: Any) -> None:
    end = answer_values(vault(terms, pairs(1)), "chain", 0, LOCAL, LATEST)
    noise = np.array([0.3, -0.1])
    assert end - ETA * noise == pytest.approx([0.2637565696, 0.0175088706], abs=2.0**-24)


def test_a_local_step_matches_the_reference() -> None:
    looker = Looker()
    answer_values(vault(ChainTerms(NAME, ETA, 2, 2, 1), pairs(2), observer=looker), "chain", 0, LOCAL, LATEST)
    assert looker.facts[0]["local_before"] == LOCAL.tolist()
    assert looker.facts[0]["local_after"] == pytest.approx([0.4777704015, -0.1739501995], rel=1e-9)


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
    created = build(records=records, kernel=Softmax(2, 2), terms=terms, ledger=ledger, noise=OperatingSystemNoise())
    drawn = [answer_values(created, "chain", slot, np.zeros(8)) for slot in range(1000)]
    assert np.std(drawn) == pytest.approx(5.0 * 2 * ETA / 2, rel=0.06)
    assert (created.statement.status, created.statement.epsilon) == (Status.REFUTED, 1.0)
    assert ledger.spending().promised_epsilon is None


def test_decisions_are_reported_with_all_their_inputs() -> None:
    looker = Looker()
    tested_vault = vault(Q, pairs(40), observer=looker)
    own, slot = LOCAL, 0
    actions = []
    while slot < 40:
        action = int(answer_values(tested_vault, "decide", slot, own)[0])
        actions.append(action)
        if action:
            own = answer_values(tested_vault, "chain", slot, own, LATEST)
        slot += 1
    assert set(actions) == {0, 1}
    decided = [facts for facts in looker.facts if facts["kind"] == "decide"]
    assert decided[0]["loss"] == pytest.approx(0.8249445708, rel=1e-9)
    assert decided[0]["state"] == [*LOCAL, decided[0]["loss"]]
    assert decided[0]["reward"] is None
    assert decided[7]["batch"] == [14, 15]
    for earlier, later, action in zip(decided, decided[1:], actions, strict=False):
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
    assert [facts["learnt"] is None for facts in decided] == [True] * 10 + [False] * 30
    assert len(decided[-1]["replay"]) == 20
    for facts in decided[10:]:
        learnt, replay = facts["learnt"], {kept["number"]: kept for kept in facts["replay"]}
        assert set(learnt["transitions"]) <= set(replay)
        assert len(learnt["targets"]) == len(learnt["predictions"]) == 10
    assert decided[0]["exploration"] == 1.0
    assert decided[-1]["exploration"] == pytest.approx(0.1)


def test_a_chain_after_local_steps_continues_from_the_private_model() -> None:
    looker = Looker()
    tested_vault = vault(Q, pairs(40), observer=looker)
    slot = next(slot for slot in range(40) if answer_values(tested_vault, "decide", slot, LOCAL)[0])
    end = answer_values(tested_vault, "chain", slot, LOCAL, LATEST)
    steps = sum(facts.get("action") == "local" for facts in looker.facts)
    local, targets = LOCAL.copy(), np.array([1, -1])
    for _ in range(steps):
        slopes = -targets / (1 + np.exp(targets * (PAIR[0] @ local)))
        local -= 2 * ETA * slopes @ PAIR[0] / 2
    assert looker.facts[-1]["local_before"] == pytest.approx(local)
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
    tested_vault = vault(Q, pairs(5))
    assert isinstance(tested_vault.answer(Query(NAME, kind, slot, point)), Refused)
    assert tested_vault.spending().charges == 0


@pytest.mark.parametrize("terms", [LETTER, Q])
def test_paper_fidelity_guarantees_nothing(terms: Any) -> None:
    with pytest.raises(PrivacyError, match="sound"):
        vault(terms, pairs(5), promised=1.0)
    with pytest.raises(DataError, match="records are too few"):
        vault(terms, Records(np.zeros((1, 2)), np.zeros(1, dtype=np.int64)))
