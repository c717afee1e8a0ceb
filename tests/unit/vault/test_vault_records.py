"""Releases of single records: each record charged only once; refused by position and terms; exact units and labels."""

import math
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare
from sottovoce.data import Records
from sottovoce.errors import DataError, InternalError, LedgerError, PrivacyError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.events import RecordReleased
from sottovoce.privacy.api import Query, Refused, Release, Status
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism, _randomise_label, l1_units, l2_unit
from sottovoce.privacy.perturbation import LabelledPrivUnit, Laplace, LaplaceCopies, RandomisedLabel, Scheme, scheme
from sottovoce.privacy.perturbation.cap import _tail
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.guarantee import Scaling
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise, Vault

OWNER = "meter-17"
FEATURES, CLASSES = 3, 4
NAMES = ["laplace-copies", "laplace", "privunit", "krr-privunit"]
REPLACE = Budget(2.0, 1e-5, "record", "replace-one")

MakeVault = Callable[..., Vault]


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    location = tmp_path / "records.db"
    Ledger.create(location, OWNER, REPLACE)
    return location


@pytest.fixture
def make(records: Records, ledger_path: Path) -> Iterator[MakeVault]:
    created: list[Vault] = []

    def make_vault(
        candidate: Scheme | None = None,
        *,
        scaling: Scaling = "declared",
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
        device_records: Records | None = None,
    ) -> Vault:
        created.append(
            build(
                records=records if device_records is None else device_records,
                kernel=Softmax(FEATURES, CLASSES),
                terms=RecordTerms("golf", candidate or scheme("privunit", FEATURES, CLASSES, 2.0), scaling),
                ledger=ledger or Ledger.open(ledger_path, OWNER, REPLACE),
                noise=noise or OperatingSystemNoise(),
            )
        )
        return created[-1]

    yield make_vault
    for vault in created:
        vault.close()


def ask(slot: int, kind: str = "record", size: int = 0) -> Query:
    return Query("golf", kind, slot, np.zeros(size))


def get_release(vault: Vault, slot: int) -> Release:
    answer = vault.answer(ask(slot))
    assert not isinstance(answer, Refused)
    return answer


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_charged_once_and_released_once(make: MakeVault, records: Records, name: str) -> None:
    """The same bytes are returned across restarts, however often they are requested; the records' ε does not add up."""
    candidate = scheme(name, FEATURES, CLASSES, 2.0)
    vault = make(candidate)
    first = [get_release(vault, slot).value.tobytes() for slot in range(len(records))]
    assert len(set(first)) == len(records)
    spent = vault.spending()
    assert (spent.charges, spent.releases, spent.epsilon) == (12, 12, 2.0)
    vault.close()
    vault = make(candidate)
    assert [get_release(vault, slot).value.tobytes() for slot in range(len(records))] == first
    assert vault.spending() == spent
    answer = get_release(vault, 3)
    assert answer.value.shape == (candidate.width,)
    assert answer.step == 2.0**candidate.exponent


@pytest.mark.parametrize("slot", [12, 99, -1])
def test_a_record_beyond_the_last_is_refused(make: MakeVault, slot: int) -> None:
    vault = make()
    answer = vault.answer(ask(slot))
    assert isinstance(answer, Refused)
    assert answer.reason == "record"
    assert vault.spending().charges == 0


@pytest.mark.parametrize("query", [ask(0, "gradient"), ask(0, ""), ask(0, size=1), ask(0, "gradient", 12)])
def test_other_queries_are_refused(make: MakeVault, query: Query) -> None:
    vault = make()
    answer = vault.answer(query)
    assert isinstance(answer, Refused)
    assert answer.reason == "query"
    assert vault.spending().charges == 0


def test_refusals_do_not_depend_on_the_records_content(make: MakeVault, records: Records) -> None:
    other = Records(records.features * 0, np.zeros(len(records), dtype=np.int64))
    answers = []
    for device_records in (records, other):
        ledger = Ledger.in_memory(OWNER, Budget(2.0, 1e-5, "record", "replace-one"))
        vault = make(device_records=device_records, ledger=ledger)
        answers.append([vault.answer(query) for query in (ask(12), ask(-1), ask(0, "gradient"), ask(1, size=2))])
        vault.close()
    assert answers[0] == answers[1]


def test_a_charge_without_its_release_pays_for_one(make: MakeVault) -> None:
    class FailingNoise(OperatingSystemNoise):
        def random_words(self, count: int) -> NDArray[np.uint64]:
            raise KeyboardInterrupt

    vault = make(noise=FailingNoise())
    with pytest.raises(KeyboardInterrupt):
        vault.answer(ask(5))
    assert (vault.spending().charges, vault.spending().releases) == (1, 0)
    vault.close()
    vault = make()
    get_release(vault, 5)
    assert (vault.spending().charges, vault.spending().releases) == (1, 1)


@pytest.mark.parametrize("terms", [("laplace", 2.0), ("privunit", 1.9)], ids=str)
def test_such_a_charge_does_not_pay_for_other_terms(make: MakeVault, terms: tuple[str, float]) -> None:
    vault = make()
    event = RecordReleased(0, "privunit", FEATURES, CLASSES, 2.0)
    assert vault._context.ledger.charge(ask(0).id, event)
    get_release(vault, 1)
    vault.close()
    vault = make(scheme(terms[0], FEATURES, CLASSES, terms[1]))
    with pytest.raises(LedgerError, match="different terms"):
        vault.answer(ask(0))
    refusal = vault.answer(ask(1))  # stored, with the same width, but not as these terms describe it
    assert isinstance(refusal, Refused)
    assert refusal.reason == "terms"
    assert vault.spending().releases == 1


def test_another_learner_does_not_release_a_record_again(make: MakeVault) -> None:
    """Another learner's name means another query; the record's ε is spent nevertheless."""
    vault = make()
    get_release(vault, 0)
    refusal = vault.answer(Query("gradient-walk", "record", 0, np.zeros(0)))
    assert isinstance(refusal, Refused)
    assert refusal.reason == "budget"
    assert vault.spending().epsilon == 2.0


def test_records_require_replace_one(make: MakeVault, path: Path, budget: Budget) -> None:
    """`path` is an add-remove ledger, under which the number of records is private."""
    ledger = Ledger.open(path, OWNER, budget)
    with pytest.raises(PrivacyError, match="neighbouring=replace-one"):
        make(ledger=ledger)
    ledger.close()


@pytest.mark.parametrize("name, epsilon", [("privunit", 2.5), ("exact", None)])
def test_a_scheme_must_fit_the_budget(make: MakeVault, name: str, epsilon: float | None) -> None:
    with pytest.raises(PrivacyError, match="budget"):
        make(scheme(name, FEATURES, CLASSES, epsilon))


@pytest.mark.parametrize("features, classes", [(2, CLASSES), (FEATURES, 3)])
def test_records_must_fit_the_scheme(make: MakeVault, features: int, classes: int) -> None:
    with pytest.raises(DataError, match=r"data\.features"):
        make(scheme("privunit", features, classes, 2.0))


def test_a_noise_free_vault_needs_a_ledger_without_a_guarantee(make: MakeVault, records: Records) -> None:
    unlimited = Ledger.in_memory(OWNER, Budget(None, 1e-5, "record", "add-remove"))
    vault = make(scheme("exact", FEATURES, CLASSES, None), ledger=unlimited)
    candidate = scheme("exact", FEATURES, CLASSES, None)
    decoded = candidate.decode(get_release(vault, 4).value[np.newaxis])[0]
    x = records.features[4] / np.sqrt((records.features[4] ** 2).sum())
    np.testing.assert_allclose(decoded[records.labels[4]], x, atol=1e-8)
    assert vault.spending().epsilon == math.inf
    statement = vault.statement
    assert (statement.status, statement.epsilon) == (Status.NONE, None)


@pytest.mark.parametrize("name", NAMES)
def test_the_statement_states_the_guarantee(make: MakeVault, name: str) -> None:
    candidate = scheme(name, FEATURES, CLASSES, 2.0)
    statement = get_release(make(candidate), 0).statement
    assert (statement.epsilon, statement.delta, statement.unit) == (2.0, 1e-5, "record")
    assert (statement.neighbouring, statement.status) == ("replace-one", Status.PROVED)
    assert "parallel over records" in statement.composition
    assert "0009" in statement.reason
    fragments = {
        "laplace-copies": "scale 4,",
        "laplace": "scale 1,",
        "privunit": "PrivUnit",
        "krr-privunit": "randomised response",
    }
    assert fragments[name] in statement.mechanism


def test_scaling_by_the_training_set_s_extremes_is_refuted(make: MakeVault) -> None:
    """Under a budget with an ε, the vault cannot be built; without one, a release is charged as infinite."""
    candidate = scheme("laplace-copies", FEATURES, CLASSES, 2.0)
    ledger = Ledger.in_memory(OWNER, REPLACE)
    with pytest.raises(PrivacyError, match="ranges"):
        make(candidate, scaling="training-min-max", ledger=ledger)
    ledger.close()
    unlimited = Ledger.in_memory(OWNER, Budget(None, 1e-5, "record", "replace-one"))
    vault = make(candidate, scaling="training-min-max", ledger=unlimited)
    assert (vault.statement.status, vault.statement.epsilon) == (Status.REFUTED, 2.0)
    assert "outlier" in vault.statement.reason
    get_release(vault, 0)
    assert vault.spending().epsilon == math.inf


def test_simulated_noise_is_marked(make: MakeVault) -> None:
    vault = make(noise=SeededNoise(1))
    assert get_release(vault, 0).simulated
    vault.close()
    vault = make()
    assert get_release(vault, 0).simulated, "seeded releases stay marked"
    assert not get_release(vault, 1).simulated


ROWS = [
    np.array([0.1, -0.2, 0.7]),
    np.array([1e308, -1e308, 5e-324]),
    np.array([5e-324, 0.0, -5e-324]),
    np.array([-3.0, 0.0, 0.0]),
    np.random.default_rng(1).normal(size=785) * np.random.default_rng(2).choice([1e-200, 1.0, 1e200], 785),
]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_record_has_exactly_length_one(row: NDArray[np.float64]) -> None:
    """In L1 never above it, each number within a step and toward zero; in L2 to sixty decimals."""
    exact = [Fraction(number) for number in row.tolist()]
    length = sum(map(abs, exact))
    units = l1_units(row, 2**20)
    assert sum(map(abs, units)) <= 2**20
    for integer, number in zip(units, exact, strict=True):
        ideal = number * 2**20 / length
        assert integer * ideal >= 0
        assert 0 <= abs(ideal) - abs(integer) < 1
    with localcontext() as context:
        context.prec = 64
        unit = l2_unit(row)
        assert unit is not None
        assert abs(sum((number * number for number in unit), Decimal(-1))) < 1e-60
        dot_product = sum(
            (Fraction(number) * component for number, component in zip(unit, exact, strict=True)), Fraction(0)
        )
        squares = sum((number**2 for number in exact), Fraction(0))
        assert abs(dot_product**2 / squares - 1) < Fraction(1, 10**55)


@pytest.mark.parametrize("row", [np.zeros(3), np.array([1.0, math.nan, 0.0]), np.array([math.inf, 1.0, 1.0])])
def test_a_record_without_a_direction_is_zero(row: NDArray[np.float64]) -> None:
    assert l1_units(row, 2**20) == [0, 0, 0]
    assert l2_unit(row) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 10])
def test_a_zero_record_gets_the_same_noise(name: str, classes: int) -> None:
    candidate = scheme(name, 5, classes, 2.0)
    values = RecordMechanism(candidate).apply(Records(np.zeros((1, 5)), np.array([1])), OperatingSystemNoise())
    assert values.shape == (candidate.width,)
    assert np.abs(values[1:]).max() > 0


@pytest.mark.parametrize("kind, classes", [(LaplaceCopies, 2), (LaplaceCopies, 10), (Laplace, 2), (Laplace, 10)])
def test_two_records_are_within_the_sensitivity_and_the_scale_covers_it(
    kind: type[Laplace | LaplaceCopies], classes: int
) -> None:
    """With the same noise for two records, the releases' difference is the exact values' difference."""
    for features, epsilon in ((1, 0.01), (5, 1.0), (785, 7.3)):
        candidate = kind(features, classes, epsilon)
        rng = np.random.default_rng(features)
        row = rng.normal(size=(1, features))
        pairs = [(Records(row, np.array([0])), Records(-row, np.array([0])))]
        pairs += [(Records(row, np.array([0])), Records(rng.normal(size=(1, features)), np.array([1])))]
        distances = []
        for first, second in pairs:
            first_release, second_release = (
                RecordMechanism(candidate).apply(record, SeededNoise(3)) for record in (first, second)
            )
            distances.append(int(np.abs(first_release - second_release).sum()))
        assert max(distances) <= candidate.sensitivity
        assert distances[0] >= candidate.sensitivity * (1 - 2.0**-14)
        assert Fraction(candidate.sensitivity, candidate.scale) <= Fraction(epsilon)
        assert Fraction(candidate.sensitivity, candidate.scale) >= Fraction(epsilon) * (1 - Fraction(1, 2**12))


@pytest.mark.parametrize("classes, epsilon", [(2, 1.0), (3, 0.3), (10, 4.0)])
def test_answers_have_their_integer_weights(classes: int, epsilon: float) -> None:
    law, noise, count = RandomisedLabel(classes, epsilon), SeededNoise(5), 20_000
    for label in (0, classes - 1):
        drawn = np.bincount([_randomise_label(law, label, noise) for _ in range(count)], minlength=classes)
        weights = np.full(classes, law.other_weight)
        weights[label] = law.true_weight
        assert weights.sum() == law.total
        assert chisquare(drawn, weights / law.total * count).pvalue > 1e-6


@pytest.mark.parametrize("classes", [2, 10, 10_000])
def test_answers_weights_are_within_the_ratio(classes: int) -> None:
    """This includes e^ε close to an integer, where exp() rounds above it."""
    for epsilon in [2.0**-16, 0.1, 1.0, 3.0, 4.0, *(math.log(ratio) for ratio in range(2, 55))]:
        law = RandomisedLabel(classes, epsilon)
        ratio = Fraction(law.true_weight, law.other_weight)
        bound = Fraction(Context(prec=60).exp(Decimal(epsilon)))
        assert bound * (1 - Fraction(1, 2**31)) < ratio < bound


@pytest.mark.parametrize("epsilon", [2.0**-16, 0.1, 1.0, 3.7, 12.0, 50.0, 499.9])
def test_a_release_s_two_parts_cost_its_epsilon_together(epsilon: float) -> None:
    candidate = LabelledPrivUnit(4, 3, epsilon)
    q = _tail(candidate.features, candidate.cap.gamma)[0]
    features = math.log(candidate.cap.inside) - math.log(2**128 - candidate.cap.inside) + math.log1p(-q) - math.log(q)
    label = math.log(candidate.label.true_weight) - math.log(candidate.label.other_weight)
    assert label + features <= epsilon
    assert label + features > epsilon - 2e-7 or epsilon > 30


@pytest.mark.parametrize(
    "features, label", [(np.zeros((2, 3)), [0, 0]), (np.zeros((1, 4)), [0]), (np.zeros((1, 3)), [4])], ids=range(3)
)
def test_a_record_with_another_shape_is_a_defect(features: NDArray[np.float64], label: list[int]) -> None:
    mechanism = RecordMechanism(scheme("laplace", 3, 4, 1.0))
    with pytest.raises(InternalError):
        mechanism.apply(Records(features, np.array(label)), SeededNoise(1))
