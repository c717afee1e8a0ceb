"""Chains of steps without replacement: a lemma with verified conditions, and a bound that no neighbours exceed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.kernels.binary import Logistic
from sottovoce.kernels.linear import OneVsAll
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.api import Query, Refused, Release, Status
from sottovoce.privacy.mechanisms.bounded_point import calibrate_point
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise, Vault
from sottovoce_papers.jin_2023.private.lemmas import chain_sensitivity, loss_constants, rounding_distance
from sottovoce_papers.jin_2023.private.program import Chain
from sottovoce_papers.jin_2023.private.steps import ChainSteps, StepSizes
from sottovoce_papers.jin_2023.private.terms import ChainTerms

D, C = 4, 3
KERNEL = Softmax(D, C)
TERMS = ChainTerms("without-replacement", step_size=0.5, batch=5, period=4, passes=1)
BUDGET = Budget(1.0, 1e-5, "record", "replace-one")
WEIGHTS = np.zeros(2 * KERNEL.size)


def make_records(count: int, seed: int = 0) -> Records:
    generator = np.random.default_rng(seed)
    return number_records(Records(generator.normal(size=(count, D)) * 2, generator.integers(0, C, count)))


def number_records(records: Records) -> Records:
    """Number records as a new ledger would."""
    return replace(records, units=np.arange(len(records)))


def make_vault(
    records: Records, *, terms: ChainTerms = TERMS, ledger: Ledger | None = None, noise: NoiseSource | None = None
) -> Vault:
    return build(
        records=records,
        kernel=KERNEL,
        terms=terms,
        ledger=ledger or Ledger.in_memory("meter-17", BUDGET),
        noise=noise or OperatingSystemNoise(),
    )


def ask(vault: Vault, slot: int, point: NDArray[np.float64] = WEIGHTS) -> Release | Refused:
    return vault.answer(Query("without-replacement", "chain", slot, point))


def program(records: Records, terms: ChainTerms = TERMS, kernel: Kernel = KERNEL) -> Chain:
    mechanism = calibrate_point(distance=1.0, size=kernel.size, releases=1, epsilon=1.0, delta=1e-5)
    sizes = StepSizes(terms.step_size, terms.slope, terms.regularisation)
    steps = ChainSteps(kernel, sizes, terms.batch, terms.radius if terms.regularisation else None)
    return Chain(steps, (mechanism,), terms.period, terms.passes, len(records))


def chain_result(
    records: Records, point: NDArray[np.float64], terms: ChainTerms = TERMS, slot: int = 0, kernel: Kernel = KERNEL
) -> NDArray[np.float64]:
    return program(records, terms, kernel).compute(Query("without-replacement", "chain", slot, point), records)


@given(
    seed=st.integers(0, 2**32),
    index=st.integers(0, 19),
    scale=st.sampled_from([0.0, 1e-9, 1.0, 1e3, 1e300]),
    step_size_ratio=st.floats(0.01, 1.0),
    weight=st.sampled_from([0.0, 1.0, 100.0, 4096.0]),
    kernel=st.sampled_from([KERNEL, Logistic(D, C)]),
    regularisation=st.sampled_from([0.0, 0.01, 1.0]),
)
def test_one_replaced_record_moves_the_end_by_at_most_the_lemma_s_bound(
    seed: int, index: int, scale: float, step_size_ratio: float, weight: float, kernel: Kernel, regularisation: float
) -> None:
    generator = np.random.default_rng(seed)
    loss = loss_constants(kernel).with_regulariser(regularisation)
    step_size = step_size_ratio / (2 * loss.smoothness)
    original = make_records(20, seed)
    terms = replace(TERMS, step_size=step_size, regularisation=regularisation, radius=10.0)
    features, labels = original.features.copy(), original.labels.copy()
    features[index] = generator.normal(size=D) * scale
    labels[index] = generator.integers(0, C)
    point = np.clip(generator.normal(size=2 * KERNEL.size) * weight, -4096, 4096)
    results = [
        chain_result(records, point, terms, kernel=kernel)
        for records in (original, number_records(Records(features, labels)))
    ]
    bound = chain_sensitivity(loss, step_size=step_size, batch=5, steps=4, neighbouring="replace-one")
    rounding = rounding_distance(
        features=D, classes=C, step_size=step_size, batch=5, steps=4, loss=loss, is_regularised=regularisation > 0
    )
    assert float(np.linalg.norm(results[0] - results[1])) <= bound + rounding


def test_the_lemma_is_nearly_tight() -> None:
    """Two distant records, in the last step with weights 0 and in the first: the bound is not loose."""
    sample = number_records(Records(np.tile([[1.0, 0, 0, 0]], (20, 1)), np.zeros(20, dtype=np.int64)))
    features, labels = sample.features.copy(), sample.labels.copy()
    point = np.zeros(2 * KERNEL.size)
    point[0::3] = point[KERNEL.size :: 3] = -50  # class 0 is considered impossible, so the gradient has maximum length
    point[KERNEL.size :].reshape(D, C)[0, 1] = 50
    features[17], labels[17] = [-1.0, 0, 0, 0], 0
    distance = float(
        np.linalg.norm(chain_result(sample, point) - chain_result(number_records(Records(features, labels)), point))
    )
    bound = chain_sensitivity(loss_constants(KERNEL), step_size=0.5, batch=5, steps=4, neighbouring="replace-one")
    assert 0.45 * bound < distance <= bound


def test_floating_point_adds_almost_nothing() -> None:
    bound = chain_sensitivity(
        loss_constants(Softmax(65, 10)), step_size=0.5, batch=50, steps=40, neighbouring="replace-one"
    )
    assert rounding_distance(features=65, classes=10, step_size=0.5, batch=50, steps=40) < 1e-4 * bound


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"neighbouring": "add-remove"}, "replace-one"),
        ({"step_size": 1.01}, "step_size"),
        ({"step_size": 0.0}, "step_size"),
        ({"step_size": math.nan}, "step_size"),
        ({"batch": 0}, "record"),
        ({"steps": 0}, "steps"),
        ({"steps": 10**6}, "steps"),
    ],
)
def test_the_lemma_s_conditions_are_verified(changes: dict[str, float | str], message: str) -> None:
    terms: dict[str, float | str] = {"step_size": 0.5, "batch": 5, "steps": 4, "neighbouring": "replace-one"}
    with pytest.raises(PrivacyError, match=message):
        chain_sensitivity(loss_constants(KERNEL), **{**terms, **changes})  # type: ignore[arg-type]


def test_a_loss_without_a_proof_has_no_bound() -> None:
    with pytest.raises(PrivacyError, match=r"bound.*softmax"):
        loss_constants(OneVsAll(D, C))  # type: ignore[arg-type]


def test_a_pass_costs_a_record_one_release_and_then_the_budget_is_spent() -> None:
    ledger = Ledger.in_memory("meter-17", BUDGET)
    vault = make_vault(make_records(65), ledger=ledger)
    for slot in range(3):
        assert not isinstance(ask(vault, slot), Refused)
        assert 0.999 < ledger.spending().epsilon <= 1.0
    refused = ask(vault, 3)
    assert isinstance(refused, Refused)
    assert refused.reason == "budget"
    assert ledger.epsilon_spent(Units(((0, 19),))) == ledger.epsilon_spent(Units(((40, 59),)))
    assert ledger.epsilon_spent(Units(((60, 64),))) == 0.0, "left over: in no chain"


def test_more_passes_share_the_budget() -> None:
    ledger = Ledger.in_memory("meter-17", BUDGET)
    vault = make_vault(make_records(40), terms=replace(TERMS, passes=4), ledger=ledger)
    for slot in range(8):
        assert not isinstance(ask(vault, slot), Refused)
    assert 0.999 < ledger.spending().epsilon <= 1.0
    assert isinstance(ask(vault, 8), Refused)


def test_noise_has_the_lemma_s_size() -> None:
    sample = make_records(20)
    errors = []
    for seed in range(200):
        answer = ask(make_vault(sample, noise=SeededNoise(seed)), 0)
        assert not isinstance(answer, Refused)
        errors.append(answer.value * answer.step - chain_result(sample, WEIGHTS))
    expected = 2 * 0.5 * math.sqrt(2) / 5 / gaussian_mu(1.0, 1e-5)
    assert np.std(errors) == pytest.approx(expected, rel=0.05)


def test_the_same_chain_has_the_same_answer_from_any_starting_point() -> None:
    ledger = Ledger.in_memory("meter-17", BUDGET)
    first, second = (ask(make_vault(make_records(20), ledger=ledger), 0, WEIGHTS + shift) for shift in (0.0, 1.0))
    assert not isinstance(first, Refused)
    assert not isinstance(second, Refused)
    assert (first.value == second.value).all()


@pytest.mark.parametrize("point", [np.zeros(3), WEIGHTS + math.nan, WEIGHTS + 5000.0, WEIGHTS - math.inf])
def test_invalid_weights_cost_nothing(point: NDArray[np.float64]) -> None:
    ledger = Ledger.in_memory("meter-17", BUDGET)
    assert isinstance(ask(make_vault(make_records(20), ledger=ledger), 0, point), Refused)
    assert ledger.spending().charges == 0


def test_non_finite_records_count_as_zero() -> None:
    sample = make_records(20)
    sample.features[3] = math.nan
    sample.features[7, 1] = math.inf
    assert np.isfinite(chain_result(sample, WEIGHTS)).all()


def test_invalid_chains_are_refused() -> None:
    with pytest.raises(DataError, match=r"few.*chain"):
        make_vault(make_records(19))
    with pytest.raises(PrivacyError, match="replace-one"):
        make_vault(make_records(40), ledger=Ledger.in_memory("m", replace(BUDGET, neighbouring="add-remove")))
    with pytest.raises(PrivacyError, match="step_size"):
        make_vault(make_records(40), terms=replace(TERMS, step_size=1.0, regularisation=0.1))


def test_without_epsilon_a_chain_ends_exactly_and_is_charged_as_infinite() -> None:
    ledger, sample = Ledger.in_memory("m", replace(BUDGET, epsilon=None)), make_records(40)
    vault = make_vault(sample, terms=replace(TERMS, step_size=3.0), ledger=ledger)
    answer = ask(vault, 1)
    assert not isinstance(answer, Refused)
    exact = chain_result(sample, WEIGHTS, replace(TERMS, step_size=3.0), slot=1)
    assert answer.value * answer.step == pytest.approx(exact, abs=2.0**-24)
    assert (vault.statement.status, ledger.spending().promised_epsilon) == (Status.NONE, None)


def test_a_regularised_chain_s_steps_shrink_and_stay_in_the_ball() -> None:
    sizes = StepSizes(0.4, 0.5, 0.1).schedule
    assert [sizes(t) for t in (1, 50, 100)] == [0.4, 0.4, pytest.approx(0.2)]
    terms = replace(TERMS, step_size=0.4, regularisation=0.1, radius=0.01)
    chain = program(make_records(20), terms)
    chain.compute(Query("without-replacement", "chain", 0, WEIGHTS), make_records(20))
    assert np.linalg.norm(chain.trace()["local_after"]) == pytest.approx(0.01)


def test_a_chain_that_could_leave_the_grid_is_refused() -> None:
    loss = loss_constants(Logistic(5, 100))
    with pytest.raises(PrivacyError, match="could exceed"):
        chain_sensitivity(loss, step_size=2.0, batch=1, steps=1000, neighbouring="replace-one")


def test_a_chain_vault_answers_no_gradient_queries() -> None:
    vault = make_vault(make_records(20))
    assert isinstance(vault.answer(Query("clipd2p", "gradient", 0, np.zeros(KERNEL.size))), Refused)
