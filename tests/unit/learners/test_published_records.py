"""Shelf of published records: bounded, equal on every device, and never repeated."""

from dataclasses import replace

import numpy as np
from hypothesis import given, strategies as st
from sottovoce.learning.learners import Holding, Perturbation, PublishedRecord, Shelf

HOW = Perturbation("privunit", 3, 2, 1.0)


def record(owner: str, slot: int = 0) -> PublishedRecord:
    return PublishedRecord(owner, slot, HOW, np.arange(3))


def keys(shelf: Shelf) -> list[tuple[str, int]]:
    return [held.key for held in shelf.records()]


@given(st.permutations(range(12)), st.integers(1, 14))
def test_the_same_records_are_stored_whatever_their_order(order: list[int], capacity: int) -> None:
    everything = [record(f"device-{i}") for i in range(12)]
    together, _, _ = Shelf(capacity).add(everything)
    one_by_one = Shelf(capacity)
    for i in order:
        one_by_one, new, evicted = one_by_one.add([everything[i]])
        assert len(new) <= 1
        assert len(evicted) <= 1
    assert keys(one_by_one) == keys(together)
    assert len(together) == min(capacity, 12)
    assert one_by_one.holding == together.holding


def test_a_full_shelf_reports_what_it_accepts_and_what_it_evicted() -> None:
    everything = [record(f"device-{i}") for i in range(20)]
    shelf, _, _ = Shelf(10).add(everything[:10])
    accepted = [item for item in everything[10:] if shelf.would_store(item.key)]
    fuller, new, evicted = shelf.add(everything[10:])
    assert {item.key for item in new} <= {item.key for item in accepted}
    assert {item.key for item in evicted} == set(keys(shelf)) - set(keys(fuller))
    assert len(new) == len(evicted) > 0
    assert not any(shelf.would_store(key) for key in keys(shelf)), "nothing is accepted twice"


def test_the_first_of_two_records_in_one_slot_stays() -> None:
    shelf, _, _ = Shelf(4).add([record("a")])
    repeated, new, evicted = shelf.add([replace(record("a"), values=np.arange(3) + 7)])
    assert (repeated, new, evicted) == (shelf, [], [])


def test_an_owner_s_slots_are_different_records() -> None:
    shelf, new, _ = Shelf(4).add([record("a", 0), record("a", 1)])
    assert len(new) == len(shelf) == 2


def test_batches_rotate_and_skip_nothing() -> None:
    shelf, _, _ = Shelf(100).add(record(f"device-{i}") for i in range(10))
    observed, cursor = [], 0
    for _ in range(5):
        batch, cursor = shelf.batch(cursor, 4)
        observed += [item.key for item in batch]
    assert sorted(observed[:10]) == sorted(keys(shelf))
    assert observed[10:] == observed[:10]


def test_a_batch_is_never_longer_than_the_shelf() -> None:
    shelf, _, _ = Shelf(100).add([record("a"), record("b")])
    assert len(shelf.batch(0, 50)[0]) == 2
    assert Shelf(3).batch(5, 50) == ((), 5)


def test_an_empty_shelf_holds_nothing() -> None:
    assert Shelf(3).holding == Holding(0, 0)
    assert Shelf(3).add([])[0] == Shelf(3)


def test_every_field_is_signed() -> None:
    one = record("a")
    fields = [
        one.signed_bytes("fleet", b"task"),
        one.signed_bytes("other", b"task"),
        record("b").signed_bytes("fleet", b"task"),
        record("a", 1).signed_bytes("fleet", b"task"),
        replace(one, values=one.values + 1).signed_bytes("fleet", b"task"),
        *(
            replace(one, perturbation=replace(HOW, **change)).signed_bytes("fleet", b"task")
            for change in ({"scheme": "laplace"}, {"features": 4}, {"classes": 3}, {"epsilon": 2.0}, {"epsilon": None})
        ),
    ]
    assert len(set(fields)) == len(fields)
