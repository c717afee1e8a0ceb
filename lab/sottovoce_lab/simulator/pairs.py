"""Invariant for pairwise averaging: exchanges conserve the sum exactly and are bounded (Boyd et al. 2006, Section 1).

The law is checked one device at a time. A model changes only by a release from its own device, by a move that the
device has just sent as an answer, or by the negative of a move that it received as an answer. Each answer moves its
recipient at most once, and no move is longer than allowed. The sum of all models in the fleet is therefore their
initial sum plus all releases, except for moves whose answers are in transit or were lost when a device crashed.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.pairwise.public.machine import Pairwise, length
from sottovoce.algorithms.pairwise.public.state import Move, PairwiseState
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, contribution
from sottovoce.privacy.api import Refused

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.law import Occurrence

_ROUNDING_FACTOR = 1 + 1e-9
_CHANGED = "a model changed by an amount other than its release or the move of this event"
_STEPS = "a device's step count differs from the number of answers from its vault"
_MADE_UP = "a device applied an answer that no device sent to it, or applied an answer twice"
_TOO_FAR = "a model moved farther in one exchange than its limit allows"


class PairwiseSumLaw:
    """The law that pairwise averaging conserves the sum of all models. Implements Law.

    Args:
        devices: the devices in the fleet.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._states: dict[str, PairwiseState] = {device.id: device.store.load().state for device in devices}
        self._sent_moves: dict[tuple[str, str, int], list[Move]] = defaultdict(list)

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any, using the last commit of a device that is down or starting; see Law."""
        device, facts, node = occurrence.device, occurrence.facts, occurrence.device.id
        previous = self._states[node]
        if device.core is None or occurrence.event == "start":
            self._states[node] = device.store.load().state
            return None
        state = self._states[node] = cast(PairwiseState, occurrence.state)
        move = cast(Move | None, facts.get("reply"))
        if occurrence.event == "receive" and move is not None:
            self._sent_moves[facts["sender"], node, facts["sequence"]].append(move)
        if state.is_blank != previous.is_blank or not device.is_honest:
            return None
        expected = previous.numerator
        match occurrence.event:
            case "receive" if move is not None and not facts["duplicate"]:
                expected = previous.numerator + move.numerator
            case "confirm" if not np.array_equal(state.numerator, previous.numerator):
                moves = self._sent_moves.pop((node, facts["recipient"], facts["sequence"]), [])
                if move is None or not any(sent is move for sent in moves):
                    return _MADE_UP
                expected = np.clip(previous.numerator - move.numerator, -MAX_NUMERATOR, MAX_NUMERATOR)
            case "answer" | "receive" | "confirm" | "over" | "meet":
                pass
            case _:  # the event is the timer of a cycle
                took_step = previous.answer is not None and not isinstance(previous.answer, Refused)
                if state.step != previous.step + took_step:
                    return _STEPS
                expected = _model_without_answer(occurrence, previous)
                return None if np.array_equal(expected, state.numerator) else _CHANGED
        if expected is not previous.numerator and _is_too_long(cast(Move, move), cast(Pairwise, device.learner)):
            return _TOO_FAR
        return None if np.array_equal(expected, state.numerator) else _CHANGED


def _is_too_long(move: Move, learner: Pairwise) -> bool:
    return length(move.numerator) > learner.reach / 2 * _ROUNDING_FACTOR


def _model_without_answer(occurrence: Occurrence, previous: PairwiseState) -> NDArray[np.int64]:
    """Return the model before this cycle's timer event, minus the contribution of the pending vault answer, if any."""
    if previous.answer is None or isinstance(previous.answer, Refused):
        return previous.numerator
    schedule = cast(Pairwise, occurrence.device.learner).schedule
    answer = previous.answer
    release = contribution(schedule, previous, answer.value, answer.step, answer.units)
    return cast(NDArray[np.int64], np.clip(previous.numerator - release, -MAX_NUMERATOR, MAX_NUMERATOR))
