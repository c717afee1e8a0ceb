"""Any sequence of charges: more never costs less, queries change nothing, no record ever exceeds the budget."""

import math
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from sottovoce.accounting.events import Event, GaussianSum, RecordReleased
from sottovoce.accounting.gaussian import gaussian_epsilon
from sottovoce.vault import Budget, Ledger

SUMS = st.builds(GaussianSum, st.integers(1, 10**6), st.integers(3_000, 60_000))
RELEASES = st.builds(
    RecordReleased, st.integers(0, 3), st.just("privunit"), st.just(3), st.just(2), st.floats(1e-6, 1.5)
)
EVENTS = st.lists(st.one_of(SUMS, RELEASES), max_size=25)


def dearest(events: list[Event]) -> float:
    """ε of the record charged most, by plain sums."""
    mu = math.sqrt(math.fsum(event.mu_squared for event in events))
    own: dict[int, float] = defaultdict(float)
    for event in events:
        if isinstance(event, RecordReleased):
            own[event.record] += event.epsilon
    return gaussian_epsilon(mu, 1e-5) + max(own.values(), default=0.0)


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_any_charges(events: list[Event]) -> None:
    book = Ledger.in_memory("meter-17", Budget(2.0, 1e-5, "record", "replace-one"))
    paid: list[Event] = []
    before = book.spending()
    for number, event in enumerate(events):
        if book.charge(number.to_bytes(32, "big"), event):
            paid.append(event)
        else:
            assert book.spending() == before
            assert dearest([*paid, event]) > 2.0 * (1 - 1e-9)
        after = book.spending()
        assert book.spending() == after
        assert before.epsilon <= after.epsilon <= 2.0
        assert after.charges == len(paid)
        assert math.isclose(after.epsilon, dearest(paid), rel_tol=1e-9, abs_tol=1e-300)
        assert after.epsilon >= dearest(paid) * (1 - 1e-14)
        before = after
    for number, event in enumerate(events):
        book.charge(number.to_bytes(32, "big"), event)  # paid before: no charge; not paid then: still none to spare
    assert book.spending() == before
