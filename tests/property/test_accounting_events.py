"""Ledger under any sequence of charges: costs never fall, queries change nothing, no record exceeds the budget."""

import math
from collections import defaultdict

from hypothesis import given, settings, strategies as st
from sottovoce.privacy.accounting.events import Event, GaussianSum, RecordReleased
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.vault import Budget, Ledger

SUMS = st.builds(GaussianSum, st.integers(1, 10**6), st.integers(3_000, 60_000))
RELEASES = st.builds(
    RecordReleased, st.integers(0, 3), st.just("privunit"), st.just(3), st.just(2), st.floats(1e-6, 1.5)
)
EVENTS = st.lists(st.one_of(SUMS, RELEASES), max_size=25)


def highest_epsilon(events: list[Event]) -> float:
    """Return the highest ε of any record, by plain sums."""
    mu = math.sqrt(math.fsum(event.mu_squared for event in events))
    record_epsilons: dict[int, float] = defaultdict(float)
    for event in events:
        if isinstance(event, RecordReleased):
            record_epsilons[event.record] += event.epsilon
    return gaussian_epsilon(mu, 1e-5) + max(record_epsilons.values(), default=0.0)


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_charges_never_exceed_the_budget(events: list[Event]) -> None:
    ledger = Ledger.in_memory("meter-17", Budget(2.0, 1e-5, "record", "replace-one"))
    charged: list[Event] = []
    before = ledger.spending()
    for number, event in enumerate(events):
        if ledger.charge(number.to_bytes(32, "big"), event):
            charged.append(event)
        else:
            assert ledger.spending() == before
            assert highest_epsilon([*charged, event]) > 2.0 * (1 - 1e-9)
        after = ledger.spending()
        assert ledger.spending() == after
        assert before.epsilon <= after.epsilon <= 2.0
        assert after.charges == len(charged)
        assert math.isclose(after.epsilon, highest_epsilon(charged), rel_tol=1e-9, abs_tol=1e-300)
        assert after.epsilon >= highest_epsilon(charged) * (1 - 1e-14)
        before = after
    for number, event in enumerate(events):
        ledger.charge(number.to_bytes(32, "big"), event)  # already charged, or still unaffordable
    assert ledger.spending() == before
