"""Vault answers: charge, draw, store, answer, in this order; same query, same bytes; nothing without noise."""

import ast
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.events import Event, GaussianSum
from sottovoce.privacy.api import Answer, Query, Refused, Release, Status
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.mechanisms.clipped_sum import exact_sum
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.terms.guarantee import gradient_guarantee
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise, Vault
from sottovoce.privacy.vault.programs.gradient import GradientSum
from sottovoce.privacy.vault.vault import VaultContext

from tests.support.sources import display_path, sources

OWNER = "meter-17"
SIZE = 12
MakeVault = Callable[..., Vault]


class CountingNoise:
    """The operating system's noise source, which counts the words drawn."""

    simulated = False

    def __init__(self) -> None:
        self.drawn = 0

    def random_words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return OperatingSystemNoise().random_words(count)


class LedgerReadingNoise(CountingNoise):
    """Noise source that records the ledger's readable content whenever noise is drawn."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.ledger_states: list[tuple[int, int]] = []

    def random_words(self, count: int) -> NDArray[np.uint64]:
        reader = Ledger.read(self._path)
        spending = reader.spending()
        reader.close()
        self.ledger_states.append((spending.charges, spending.releases))
        return super().random_words(count)


def expected_event(vault: Vault) -> Event:
    """Return the event that this vault charges for a release."""
    plan = vault._context.program.plan(make_query(0))
    assert not isinstance(plan, Refused)
    return plan.event


def make_query(slot: int, kind: str = "gradient", point: NDArray[np.float64] | None = None) -> Query:
    return Query("clipd2p", kind, slot, np.zeros(SIZE) if point is None else point)


def get_release(answer: Answer) -> Release:
    assert not isinstance(answer, Refused)
    return answer


def test_the_same_query_has_the_same_answer(make_vault: MakeVault) -> None:
    """This holds across a restart and at any point, without a new draw or charge."""
    noise = CountingNoise()
    vault = make_vault(noise=noise)
    first = get_release(vault.answer(make_query(0)))
    drawn = noise.drawn
    assert drawn > 0
    repeated = get_release(vault.answer(make_query(0, point=np.ones(SIZE))))
    vault.close()
    vault = make_vault(noise=noise)
    later = get_release(vault.answer(make_query(0)))
    for other in (repeated, later):
        assert other.value.tobytes() == first.value.tobytes()
        assert (other.query_id, other.step) == (first.query_id, first.step)
    assert noise.drawn == drawn
    assert vault.spending().charges == 1
    assert vault.spending().releases == 1


def test_another_query_has_other_noise(make_vault: MakeVault) -> None:
    vault = make_vault()
    values = [get_release(vault.answer(make_query(slot))).value for slot in range(3)]
    assert len({value.tobytes() for value in values}) == 3


def test_the_order_is_charge_draw_store(path: Path, make_vault: MakeVault) -> None:
    noise = LedgerReadingNoise(path)
    vault = make_vault(noise=noise)
    for slot in range(3):
        noise.ledger_states.clear()
        vault.answer(make_query(slot))
        assert set(noise.ledger_states) == {(slot + 1, slot)}
        reader = Ledger.read(path)
        assert reader.spending().releases == slot + 1
        reader.close()


def test_a_spent_budget_draws_nothing(make_vault: MakeVault) -> None:
    noise = CountingNoise()
    vault = make_vault(noise=noise, releases=3)
    for slot in range(3):
        get_release(vault.answer(make_query(slot)))
    drawn, spent = noise.drawn, vault.spending()
    assert 1.99 < spent.epsilon <= 2.0
    for slot in (3, 4, 99):
        refusal = vault.answer(make_query(slot))
        assert isinstance(refusal, Refused)
        assert (refusal.reason, refusal.query_id) == ("budget", make_query(slot).id)
    assert noise.drawn == drawn
    assert vault.spending() == spent
    get_release(vault.answer(make_query(1)))


MALFORMED = [
    make_query(0, kind="record"),
    make_query(0, kind=""),
    make_query(0, point=np.zeros(SIZE - 1)),
    make_query(0, point=np.zeros(0)),
    make_query(0, point=np.zeros((1, SIZE))),
    make_query(0, point=np.full(SIZE, math.nan)),
    make_query(0, point=np.full(SIZE, -math.inf)),
]


@pytest.mark.parametrize("query", MALFORMED, ids=range(len(MALFORMED)))
def test_invalid_queries_cost_nothing(make_vault: MakeVault, query: Query) -> None:
    noise = CountingNoise()
    vault = make_vault(noise=noise)
    answer = vault.answer(query)
    assert isinstance(answer, Refused)
    assert answer.reason == "query"
    assert (noise.drawn, vault.spending().charges) == (0, 0)


def test_a_refusal_reads_no_records(make_vault: MakeVault, path: Path) -> None:
    """A refusal is the same for any records."""
    answers = []
    for device_records in (
        Records(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)),
        Records(np.ones((9, 3)), np.ones(9, np.int64)),
    ):
        vault = make_vault(device_records=device_records)
        answers.append([vault.answer(query) for query in MALFORMED])
        vault.close()
    assert answers[0] == answers[1]


def test_without_records_noise_is_still_added(make_vault: MakeVault) -> None:
    noise = CountingNoise()
    vault = make_vault(noise=noise, device_records=Records(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)))
    value = get_release(vault.answer(make_query(0))).value
    assert noise.drawn >= SIZE
    assert np.abs(value).max() > 0
    assert vault.spending().charges == 1


@pytest.mark.slow
def test_a_release_is_the_clipped_sum_plus_noise_with_the_calibrated_size(records: Records) -> None:
    """Many simulated devices with the same records: their releases' mean and spread."""
    budget, terms, kernel = Budget(8.0, 1e-5, "record", "add-remove"), GradientTerms("clipd2p", 1, 0.8), Softmax(3, 4)
    point = np.linspace(-1, 1, SIZE)
    values = []
    for seed in range(400):
        ledger = Ledger.in_memory(OWNER, budget)
        vault = build(records=records, kernel=kernel, terms=terms, ledger=ledger, noise=SeededNoise(seed))
        release = get_release(vault.answer(make_query(0, point=point)))
        values.append(release.value * release.step)
        vault.close()
    rows = kernel.gradients(point[np.newaxis], records.features[np.newaxis], records.labels[np.newaxis])[0]
    rows *= np.minimum(1, 0.8 / np.sqrt((rows**2).sum(axis=1)))[:, np.newaxis]
    sigma = 0.8 * 0.6  # the analytic σ for ε = 8, δ = 1e-5
    noise = np.array(values) - rows.sum(axis=0)
    assert abs(noise.std() / sigma - 1) < 0.05
    assert np.abs(noise.mean(axis=0)).max() < 5 * sigma / 20
    correlations = np.corrcoef(noise.T) - np.eye(SIZE)
    assert np.abs(correlations).max() < 5 / 20


def test_every_number_is_on_the_grid(make_vault: MakeVault) -> None:
    release = get_release(make_vault().answer(make_query(0)))
    assert release.value.dtype == np.int64
    assert math.frexp(release.step)[0] == 0.5
    assert not release.value.flags.writeable


def test_a_noise_free_vault_needs_a_ledger_without_a_guarantee(records: Records, path: Path, budget: Budget) -> None:
    """A vault with a noise-free mechanism gets nothing from a ledger with an ε, charged or not."""
    kernel = Softmax(3, 4)
    ledger = Ledger.open(path, OWNER, budget)
    noiseless = exact_sum(clip=1.0, size=SIZE)
    vault = Vault(
        VaultContext(
            records,
            GradientSum(kernel, noiseless),
            ledger,
            OperatingSystemNoise(),
            gradient_guarantee(budget, noiseless, 1.0),
        )
    )
    refusal = vault.answer(make_query(0))
    assert isinstance(refusal, Refused)
    assert refusal.reason == "budget"
    ledger.charge(make_query(1).id, GaussianSum(100, 10_000))
    with pytest.raises(LedgerError, match="different terms"):
        vault.answer(make_query(1))
    assert vault.spending().releases == 0
    vault.close()


def test_a_noise_free_learner_needs_a_budget_without_a_guarantee(make_vault: MakeVault, records: Records) -> None:
    with pytest.raises(PrivacyError, match="push-sum"):
        make_vault(learner="push-sum", clip=None)
    ledger = Ledger.in_memory(OWNER, Budget(None, 1e-5, "record", "add-remove"))
    noise = CountingNoise()
    vault = make_vault(learner="push-sum", clip=None, ledger=ledger, noise=noise)
    release = get_release(vault.answer(make_query(0)))
    kernel = Softmax(3, 4)
    rows = kernel.gradients(np.zeros((1, SIZE)), records.features[np.newaxis], records.labels[np.newaxis])[0]
    np.testing.assert_allclose(release.value * release.step, rows.sum(axis=0), atol=1e-6)
    assert noise.drawn == 0
    assert (release.statement.status, release.statement.epsilon) == (Status.NONE, None)
    assert vault.spending().epsilon == math.inf


def test_seeded_releases_stay_marked(make_vault: MakeVault) -> None:
    """The mark remains even if a vault with real noise returns the release later."""
    vault = make_vault(noise=SeededNoise(1))
    assert get_release(vault.answer(make_query(0))).simulated
    vault.close()
    vault = make_vault(noise=OperatingSystemNoise())
    assert get_release(vault.answer(make_query(0))).simulated
    assert not get_release(vault.answer(make_query(1))).simulated


def test_the_same_seed_yields_the_same_releases(records: Records) -> None:
    def values(seed: int) -> list[bytes]:
        ledger = Ledger.in_memory(OWNER, Budget(2.0, 1e-5, "record", "add-remove"))
        terms, kernel = GradientTerms("clipd2p", 4, 1.0), Softmax(3, 4)
        vault = build(records=records, kernel=kernel, terms=terms, ledger=ledger, noise=SeededNoise(seed))
        return [get_release(vault.answer(make_query(slot))).value.tobytes() for slot in range(4)]

    assert values(5) == values(5) != values(6)


def test_a_charge_without_its_release_pays_for_one(make_vault: MakeVault, path: Path) -> None:
    """The device died in between, and nothing was released."""

    class FailingNoise(CountingNoise):
        def random_words(self, count: int) -> NDArray[np.uint64]:
            raise KeyboardInterrupt

    vault = make_vault(noise=FailingNoise())
    with pytest.raises(KeyboardInterrupt):
        vault.answer(make_query(0))
    assert (vault.spending().charges, vault.spending().releases) == (1, 0)
    vault.close()
    vault = make_vault()
    get_release(vault.answer(make_query(0)))
    assert (vault.spending().charges, vault.spending().releases) == (1, 1)


def test_such_a_charge_does_not_pay_for_less_noise(make_vault: MakeVault) -> None:
    """After the crash, the configuration requests fewer releases, hence less noise."""
    vault = make_vault(releases=50)
    vault._context.ledger.charge(make_query(0).id, expected_event(vault))
    vault.close()
    noise = CountingNoise()
    vault = make_vault(releases=2, noise=noise)
    with pytest.raises(LedgerError, match="different terms"):
        vault.answer(make_query(0))
    assert noise.drawn == 0


def test_an_answer_for_a_model_with_another_size_is_not_returned(make_vault: MakeVault) -> None:
    vault = make_vault()
    get_release(vault.answer(make_query(0)))
    vault.close()
    wider = make_vault(kernel=Softmax(3, 5))
    refusal = wider.answer(make_query(0, point=np.zeros(15)))
    assert isinstance(refusal, Refused)
    assert refusal.reason == "terms"


@pytest.fixture
def full_disk(path: Path, budget: Budget) -> tuple[Ledger, Callable[[bool], None]]:
    """A ledger, and a switch for free space on its disk."""
    ledger = Ledger.open(path, OWNER, budget)
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]

    def fill(is_full: bool) -> None:
        ledger._connection.execute(f"PRAGMA max_page_count = {pages if is_full else 1_000_000}")

    return ledger, fill


def test_on_a_full_disk_nothing_is_released(
    make_vault: MakeVault, full_disk: tuple[Ledger, Callable[[bool], None]]
) -> None:
    """A release too large to store is not released; once there is space, it is, for the same charge."""
    ledger, fill = full_disk
    rng = np.random.default_rng(0)
    device_records = Records(rng.normal(size=(5, 400)), rng.integers(0, 4, 5))
    vault = make_vault(ledger=ledger, device_records=device_records, kernel=Softmax(400, 4), releases=5)
    fill(True)
    for _ in range(2):
        with pytest.raises(LedgerError, match="disk"):
            vault.answer(make_query(0, point=np.zeros(1600)))
    assert (vault.spending().charges, vault.spending().releases) == (1, 0)
    fill(False)
    get_release(vault.answer(make_query(0, point=np.zeros(1600))))
    assert (vault.spending().charges, vault.spending().releases) == (1, 1)


def test_an_unwritable_charge_draws_nothing(make_vault: MakeVault, path: Path, budget: Budget) -> None:
    noise = CountingNoise()
    vault = make_vault(noise=noise)
    vault._context.ledger._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match=r"nothing.*released"):
        vault.answer(make_query(0))
    assert noise.drawn == 0


async def test_a_query_returns_its_answer(make_vault: MakeVault) -> None:
    vault = make_vault()
    reply = get_release(await vault.ask(make_query(0)))
    assert get_release(vault.answer(make_query(0))).value.tobytes() == reply.value.tobytes()


def test_the_statement_states_the_guarantee(make_vault: MakeVault) -> None:
    statement = get_release(make_vault().answer(make_query(0))).statement
    assert (statement.epsilon, statement.delta, statement.unit) == (2.0, 1e-5, "record")
    assert (statement.neighbouring, statement.status) == ("add-remove", Status.PROVED)


@pytest.mark.slow
def test_only_the_vault_creates_releases() -> None:
    """By name: no other code in the package mentions the class; in each process, one function calls it."""
    mentions, calls = set(), []
    for source in sources():
        name = display_path(source)
        for node in ast.walk(ast.parse(source.read_text())):
            match node:
                case (
                    ast.Name(id="SealedRelease") | ast.alias(name="SealedRelease") | ast.ClassDef(name="SealedRelease")
                ):
                    mentions.add(name)
                case ast.Attribute(attr="SealedRelease") | ast.Constant(value="SealedRelease"):
                    mentions.add(name)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "SealedRelease":
                calls.append(name)
    assert mentions == {f"sottovoce/privacy/{name}.py" for name in ("rpc/remote", "vault/release", "vault/vault")}
    assert calls == ["sottovoce/privacy/rpc/remote.py", "sottovoce/privacy/vault/vault.py"], (
        "the vault's front in another process repeats its statement"
    )


def test_a_stored_release_has_a_fixed_byte_order(path: Path, make_vault: MakeVault) -> None:
    """The order is little-endian, so a ledger moved to another machine has the same content."""
    vault = make_vault()
    release = get_release(vault.answer(make_query(0)))
    stored = vault._context.ledger.stored_release(make_query(0).id)
    assert stored == StoredRelease(int(math.log2(release.step)), release.value.astype("<i8").tobytes(), False)
