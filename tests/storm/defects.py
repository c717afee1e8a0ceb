"""Defects of order, planted into the shipped code one at a time, and the seed in which the storm finds each.

python -m tests.storm.defects [--seeds N]
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sottovoce.agent.core import Core
from sottovoce.agent.links import NewestMessage
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.contributions.public.acceptance import Acceptance
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.golf.public.machine import Golf
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.messages import Move
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.errors import DataError
from sottovoce.learners import Delivered, Reply
from sottovoce.vault import Ledger
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.storm.run import Outcome, played
from tests.storm.weather import weather

SEEDS = 1000
DEFECTS: dict[str, Callable[[], Any]] = {}


def _planted(owner: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function in the place of a method; its first argument is that method."""

    def plant(changed: Callable[..., Any]) -> Callable[..., Any]:
        shipped = getattr(owner, name)

        @contextmanager
        def planted() -> Iterator[None]:
            with patch.object(owner, name, lambda *args, **named: changed(shipped, *args, **named)):
                yield

        DEFECTS[(changed.__doc__ or "").strip(".")] = planted
        return changed

    return plant


@_planted(Core, "receive")
def _forgets(shipped: Any, core: Any, sender: str, *rest: Any) -> Any:
    """A repetition is applied again."""
    core._seen.pop(sender, None)
    return shipped(core, sender, *rest)


@_planted(Core, "was_applied")
def _newest_only(shipped: Any, core: Any, sender: str, incarnation: int, sequence: int) -> bool:
    """Of repetitions only that of the newest message is known."""
    newest = core._seen.get(sender)
    return newest is not None and (newest.incarnation, newest.sequence) == (incarnation, sequence)


@_planted(Core, "awaits")
def _any_receipt(shipped: Any, core: Any, recipient: str, sequence: int) -> bool:
    """A late receipt is taken for that of the next message."""
    return recipient in core._outbox


@_planted(Core, "_commit")
def _seen_later(shipped: Any, core: Any, state: Any, sent: Any, seen: Any) -> None:
    """What was applied is durable before its number is."""
    shipped(core, state, sent, None)
    if seen is not None:
        core._seen[seen[0]] = seen[1]


@_planted(Core, "_commit")
def _state_later(shipped: Any, core: Any, state: Any, sent: Any, seen: Any) -> None:
    """What was applied is durable after its number is, and its model with the next message."""
    shipped(core, state if sent else core._store.load().state, sent, seen)


@_planted(MemoryStore, "commit")
def _no_outbox(shipped: Any, store: Any, state: Any, sent: Any, confirmed: Any, seen: Any) -> None:
    """The outbox is not durable."""
    shipped(store, state, [], [*confirmed, *(one.recipient for one in sent)], seen)


@_planted(MemoryStore, "commit")
def _numbers_again(shipped: Any, store: Any, state: Any, sent: Any, confirmed: Any, seen: Any) -> None:
    """After a crash numbers of messages start over."""
    shipped(store, state, sent, confirmed, seen)
    store._sequences = {}


@_planted(MemoryStore, "commit")
def _seen_is_lost(shipped: Any, store: Any, state: Any, sent: Any, confirmed: Any, seen: Any) -> None:
    """What has been applied is forgotten in a crash."""
    shipped(store, state, sent, confirmed, None if seen is None else (seen[0], NewestMessage(seen[1].incarnation, 0)))


@_planted(Core, "_make_outgoing")
def _number_twice(shipped: Any, core: Any, send: Any) -> Any:
    """Two messages have the same number."""
    core._sequences.pop(send.recipient, None)
    return shipped(core, send)


@_planted(Ledger, "stored_release")
def _never_stored(shipped: Any, ledger: Any, query: bytes) -> None:
    """A question that is asked again gets new noise."""


@_planted(Ledger, "charge")
def _for_nothing(shipped: Any, ledger: Any, query: bytes, event: Any) -> bool:
    """A release is not charged."""
    return True


@_planted(PushSum, "_split")
def _kept_too(shipped: Any, learner: Any, state: Any) -> Any:
    """A share is sent, and kept."""
    after, effects = shipped(learner, state)
    return replace(after, numerator=state.numerator, weight=state.weight), effects


@_planted(Pairwise, "_tick")
def _asked_twice(shipped: Any, learner: Any, state: Any, now: float) -> Any:
    """In pairs a device counts a step that its vault has not answered yet."""
    return shipped(
        learner, replace(state, pending_query=None, step=state.step + (state.pending_query is not None)), now
    )


@_planted(PushSum, "_split")
def _impatient(shipped: Any, learner: Any, state: Any) -> Any:
    """Push-sum sends to a peer before the last share is confirmed."""
    after, effects = shipped(learner, state)
    return replace(after, pending=state.pending), effects


@_planted(PushSum, "resumed")
def _nothing_pending(shipped: Any, learner: Any, state: Any, pending: Any) -> Any:
    """After a restart push-sum sends to a peer before the last share is confirmed."""
    return shipped(learner, state, frozenset())


@_planted(PushSum, "_handle_answer")
def _any_answer(shipped: Any, learner: Any, state: Any, answer: Any, now: float) -> Any:
    """Push-sum takes an answer twice."""
    once, effects = shipped(learner, state, answer, now)
    return (
        (once, effects) if once is state else (replace(once, numerator=2 * once.numerator - state.numerator), effects)
    )


@_planted(Pairwise, "_handle_reply")
def _wrong_way(shipped: Any, learner: Any, state: Any, recipient: str, reply: Any) -> Any:
    """In pairs both go the same way."""
    return shipped(learner, state, recipient, Move(-reply.numerator, reply.simulated) if reply else None)


@_planted(Pairwise, "_receive")
def _answers_first(shipped: Any, learner: Any, state: Any, sender: str, proposal: Any) -> Any:
    """In pairs a device answers, and does not go."""
    after, effects = shipped(learner, state, sender, proposal)
    return (state, effects) if any(isinstance(one, Reply) for one in effects) else (after, effects)


@_planted(Pairwise, "on")
def _confirmed_twice(shipped: Any, learner: Any, state: Any, event: Any, now: float) -> Any:
    """In pairs an answer counts twice."""
    after, effects = shipped(learner, state, event, now)
    if isinstance(event, Delivered) and event.reply is not None and after is not state:
        after = replace(after, numerator=after.numerator - event.reply.numerator)  # type: ignore[attr-defined]
    return after, effects


@_planted(Acceptance, "_is_wanted")
def _older_counts(shipped: Any, learner: Any, state: Any, one: Any) -> bool:
    """An older contribution takes the place of a newer one."""
    shipped(learner, state, one)
    return bool(one.owner != learner._owner)


@_planted(Mixer, "_handle_answer")
def _step_first(shipped: Any, learner: Any, state: Any, answer: Any) -> Any:
    """A step is counted before it is taken."""
    after, effects = shipped(learner, state, answer)
    return (after, effects) if after.step == state.step else (replace(after, numerator=state.numerator), effects)


@_planted(Core, "_commit")
def _as_if_written(shipped: Any, core: Any, state: Any, sent: Any, seen: Any) -> None:
    """A commit for which there was no room counts as one."""
    with suppress(DataError):
        shipped(core, state, sent, seen)
    for one in sent:
        core._outbox[one.recipient] = one
        core._sequences[one.recipient] = one.sequence
    if seen is not None:
        core._seen[seen[0]] = seen[1]


@_planted(Mixer, "_without_revoked")
def _contributions_stay(shipped: Any, learner: Any, state: Any) -> Any:
    """What a revoked device has contributed is kept."""
    return state


@_planted(Golf, "_without_revoked")
def _records_stay(shipped: Any, learner: Any, state: Any) -> Any:
    """What a revoked device has published is kept."""
    return state, []


@_planted(Cells, "_accepts_own_offer")
def _own_offer(shipped: Any, learner: Any, offer: Any) -> bool:
    """A device leads a secure sum although its own certificate has expired."""
    return True


@_planted(Cells, "_fail_round")
def _leader_is_struck(shipped: Any, learner: Any, state: Any) -> Any:
    """Who led a secure sum that came to nothing is struck as a liar."""
    failed, effects = shipped(learner, state)
    if state.leader in ("", learner._owner):
        return failed, effects
    struck, more = learner._dishonesty.record_lie(failed, state.leader, "led nowhere")
    return struck, [*effects, *more]


@_planted(Cells, "_adopt_result")
def _own_sum(shipped: Any, learner: Any, state: Any, opened: Any) -> Any:
    """Two devices make different sums of what they have both opened."""
    after, effects = shipped(learner, state, opened)
    return replace(after, numerator=after.numerator + len(after.peers) + state.cycle), effects


def found(planted: Callable[[], Any], seeds: int) -> Outcome | None:
    """The first run in which the storm complains about a defect."""
    with planted():
        return next((outcome for seed in range(seeds) if (outcome := played(weather(seed))).complaint), None)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds, missed = parser.parse_args().seeds, 0
    for name, planted in DEFECTS.items():
        outcome = found(planted, seeds)
        missed += outcome is None
        said = f"not in {seeds} seeds" if outcome is None else f"seed {outcome.weather.seed}: {outcome.complaint}"
        print(f"{name}\n    {said[:170]}", flush=True)
    print(f"{len(DEFECTS) - missed} of {len(DEFECTS)} defects found")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
