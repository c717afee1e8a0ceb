"""Ordering defects, planted into the shipped code one at a time, and the first seed in which the storm finds each.

python -m tests.storm.defects [--seeds N]
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.contributions.public.acceptance import Acceptance
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import Move
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.errors import DataError
from sottovoce.learning.learners import Delivered, Reply
from sottovoce.node.core import Core
from sottovoce.node.links import NewestMessage
from sottovoce.privacy.vault import Ledger
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_papers.hegedus_2017.golf.public.machine import Golf

from tests.storm.run import Outcome, play
from tests.storm.weather import weather

SEEDS = 1000
DEFECTS: dict[str, Callable[[], Any]] = {}


def _plants(owner: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a defect: a function that replaces a method and receives the shipped method as its first argument."""

    def plant(defect: Callable[..., Any]) -> Callable[..., Any]:
        shipped = getattr(owner, name)

        @contextmanager
        def plant_defect() -> Iterator[None]:
            with patch.object(owner, name, lambda *args, **named: defect(shipped, *args, **named)):
                yield

        DEFECTS[(defect.__doc__ or "").strip(".")] = plant_defect
        return defect

    return plant


@_plants(Core, "receive")
def _forgets(shipped: Any, core: Any, sender: str, *rest: Any) -> Any:
    """A repetition is applied again."""
    core._seen.pop(sender, None)
    return shipped(core, sender, *rest)


@_plants(Core, "was_applied")
def _newest_only(shipped: Any, core: Any, sender: str, incarnation: int, sequence: int) -> bool:
    """Only a repetition of the newest message is detected."""
    newest = core._seen.get(sender)
    return newest is not None and (newest.incarnation, newest.sequence) == (incarnation, sequence)


@_plants(Core, "is_unconfirmed")
def _any_receipt(shipped: Any, core: Any, recipient: str, sequence: int) -> bool:
    """A late receipt is mistaken for the receipt of the next message."""
    return recipient in core._outbox


@_plants(Core, "_commit")
def _seen_later(shipped: Any, core: Any, state: Any, sent: Any, seen: Any) -> None:
    """An applied message is durable before its number is."""
    shipped(core, state, sent, None)
    if seen is not None:
        core._seen[seen[0]] = seen[1]


@_plants(Core, "_commit")
def _state_later(shipped: Any, core: Any, state: Any, sent: Any, seen: Any) -> None:
    """An applied message's number is durable before its effect on the model, which is stored with the next message."""
    shipped(core, state if sent else core._store.load().state, sent, seen)


@_plants(MemoryStore, "commit")
def _no_outbox(shipped: Any, store: Any, state: Any, sent: Any, confirmed: Any, seen: Any) -> None:
    """The outbox is not durable."""
    shipped(store, state, [], [*confirmed, *(outgoing.recipient for outgoing in sent)], seen)


@_plants(MemoryStore, "commit")
def _numbers_again(shipped: Any, store: Any, state: Any, sent: Any, confirmed: Any, seen: Any) -> None:
    """After a crash, message numbers restart."""
    shipped(store, state, sent, confirmed, seen)
    store._sequences = {}


@_plants(MemoryStore, "commit")
def _seen_is_lost(shipped: Any, store: Any, state: Any, sent: Any, confirmed: Any, seen: Any) -> None:
    """A crash erases the record of applied messages."""
    shipped(store, state, sent, confirmed, None if seen is None else (seen[0], NewestMessage(seen[1].incarnation, 0)))


@_plants(Core, "_make_outgoing")
def _number_twice(shipped: Any, core: Any, send: Any) -> Any:
    """Two messages have the same number."""
    core._sequences.pop(send.recipient, None)
    return shipped(core, send)


@_plants(Ledger, "stored_release")
def _never_stored(shipped: Any, ledger: Any, query: bytes) -> None:
    """A repeated query gets new noise."""


@_plants(Ledger, "charge")
def _for_nothing(shipped: Any, ledger: Any, query: bytes, event: Any) -> bool:
    """A release is not charged."""
    return True


@_plants(PushSum, "_split")
def _kept_too(shipped: Any, learner: Any, state: Any) -> Any:
    """A share is sent but also kept."""
    after, effects = shipped(learner, state)
    return replace(after, numerator=state.numerator, weight=state.weight), effects


@_plants(Pairwise, "_tick")
def _asked_twice(shipped: Any, learner: Any, state: Any, now: float) -> Any:
    """With pairwise mixing, a device counts a step that its vault has not answered yet."""
    return shipped(
        learner, replace(state, pending_query=None, step=state.step + (state.pending_query is not None)), now
    )


@_plants(PushSum, "_split")
def _impatient(shipped: Any, learner: Any, state: Any) -> Any:
    """Push-sum sends to a peer before the last share is confirmed."""
    after, effects = shipped(learner, state)
    return replace(after, pending=state.pending), effects


@_plants(PushSum, "restore")
def _nothing_pending(shipped: Any, learner: Any, state: Any, pending: Any) -> Any:
    """After a restart push-sum sends to a peer before the last share is confirmed."""
    return shipped(learner, state, frozenset())


@_plants(PushSum, "_handle_answer")
def _any_answer(shipped: Any, learner: Any, state: Any, answer: Any, now: float) -> Any:
    """Push-sum applies an answer twice."""
    applied, effects = shipped(learner, state, answer, now)
    if applied is not state:
        applied = replace(applied, numerator=2 * applied.numerator - state.numerator)
    return applied, effects


@_plants(Pairwise, "_handle_reply")
def _wrong_way(shipped: Any, learner: Any, state: Any, recipient: str, reply: Any) -> Any:
    """With pairwise mixing, both devices move in the same direction."""
    return shipped(learner, state, recipient, Move(-reply.numerator, reply.simulated) if reply else None)


@_plants(Pairwise, "_receive")
def _answers_first(shipped: Any, learner: Any, state: Any, sender: str, proposal: Any) -> Any:
    """With pairwise mixing, a device replies but does not move."""
    after, effects = shipped(learner, state, sender, proposal)
    return (state, effects) if any(isinstance(effect, Reply) for effect in effects) else (after, effects)


@_plants(Pairwise, "on")
def _confirmed_twice(shipped: Any, learner: Any, state: Any, event: Any, now: float) -> Any:
    """With pairwise mixing, a reply counts twice."""
    after, effects = shipped(learner, state, event, now)
    if isinstance(event, Delivered) and event.reply is not None and after is not state:
        after = replace(after, numerator=after.numerator - event.reply.numerator)  # type: ignore[attr-defined]
    return after, effects


@_plants(Acceptance, "_is_wanted")
def _older_counts(shipped: Any, learner: Any, state: Any, contribution: Any) -> bool:
    """An older contribution replaces a newer one."""
    shipped(learner, state, contribution)
    return bool(contribution.owner != learner._owner)


@_plants(Mixer, "_handle_answer")
def _step_first(shipped: Any, learner: Any, state: Any, answer: Any) -> Any:
    """A step is counted before it is taken."""
    after, effects = shipped(learner, state, answer)
    return (after, effects) if after.step == state.step else (replace(after, numerator=state.numerator), effects)


@_plants(Core, "_commit")
def _as_if_written(shipped: Any, core: Any, state: Any, sent: Any, seen: Any) -> None:
    """A commit that failed on a full disk counts as done."""
    with suppress(DataError):
        shipped(core, state, sent, seen)
    for outgoing in sent:
        core._outbox[outgoing.recipient] = outgoing
        core._sequences[outgoing.recipient] = outgoing.sequence
    if seen is not None:
        core._seen[seen[0]] = seen[1]


@_plants(Mixer, "_without_revoked")
def _contributions_stay(shipped: Any, learner: Any, state: Any) -> Any:
    """A revoked device's contributions are kept."""
    return state


@_plants(Golf, "_without_revoked")
def _records_stay(shipped: Any, learner: Any, state: Any) -> Any:
    """A revoked device's published records are kept."""
    return state, []


@_plants(Cells, "_accepts_own_offer")
def _own_offer(shipped: Any, learner: Any, offer: Any) -> bool:
    """A device leads a secure sum although its own certificate has expired."""
    return True


@_plants(Cells, "_fail_round")
def _leader_is_struck(shipped: Any, learner: Any, state: Any) -> Any:
    """The leader of a failed secure sum is struck as a liar."""
    failed, effects = shipped(learner, state)
    if state.leader in ("", learner._owner):
        return failed, effects
    struck, more = learner._dishonesty.record_lie(failed, state.leader, "led nowhere")
    return struck, [*effects, *more]


@_plants(Cells, "_adopt_result")
def _own_sum(shipped: Any, learner: Any, state: Any, opened: Any) -> Any:
    """Two devices compute different sums from the same opening."""
    after, effects = shipped(learner, state, opened)
    return replace(after, numerator=after.numerator + len(after.peers) + state.cycle), effects


def find_first_complaint(plant_defect: Callable[[], Any], seeds: int) -> Outcome | None:
    """Return the first run in which the storm detects a defect, or None."""
    with plant_defect():
        return next((outcome for seed in range(seeds) if (outcome := play(weather(seed))).complaint), None)


def main() -> int:
    """Run the command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds, missed_count = parser.parse_args().seeds, 0
    for name, plant_defect in DEFECTS.items():
        outcome = find_first_complaint(plant_defect, seeds)
        missed_count += outcome is None
        result = f"not in {seeds} seeds" if outcome is None else f"seed {outcome.weather.seed}: {outcome.complaint}"
        print(f"{name}\n    {result[:170]}", flush=True)
    print(f"{len(DEFECTS) - missed_count} of {len(DEFECTS)} defects found")
    return bool(missed_count)


if __name__ == "__main__":
    sys.exit(main())
