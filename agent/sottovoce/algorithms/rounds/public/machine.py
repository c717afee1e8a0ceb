"""Synchronous rounds without a server: each device follows its own clock and waits for neighbours up to a deadline.

A round is a fixed sequence of phases. In each phase, a device sends messages to its neighbours and waits for theirs.
Once all have arrived or the deadline has passed, it adds the weights of missing neighbours to its own and continues
with the next phase. A device acts only on the beats of its own clock, so the send times do not reveal how long the
vault worked on the records, with one exception: a vault that takes longer than a beat misses whole beats, which is
visible. Choose a period that leaves the vault enough time to answer.

Once a neighbour has missed a phase, a device does not wait for it again until that neighbour sends a message for the
current round or a later one. A device that lags far behind, or restarts, keeps its model and continues in the round
after the one that more than half of its neighbours have reached.

Each gradient in round t has a fixed slot, t · questions + position, which lets the vault limit the cost of a round. A
device that restarts abandons its current round, so no slot is ever queried again at a different point.
"""

from dataclasses import replace

import numpy as np

from sottovoce.algorithms.rounds.public.attendance import (
    Step,
    find_majority_round,
    missing_neighbours,
    note_message,
    send_next,
    send_or_queue,
    without_finished_phases,
)
from sottovoce.algorithms.rounds.public.mixing_only import MixingOnly
from sottovoce.algorithms.rounds.public.schedule import BEATS_PER_PHASE, MAX_BEHIND, RoundsSchedule
from sottovoce.algorithms.rounds.public.state import LARGEST, RESTING, RoundMessage, RoundsState
from sottovoce.algorithms.rounds.public.work import Floats, Mixing, RoundAlgorithm, Work
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import (
    Ask,
    Delivered,
    Effect,
    Event,
    Message,
    PeersChanged,
    Progress,
    PublishModel,
    Received,
    Returned,
    SetTimer,
    Timer,
    shape_refusal,
)
from sottovoce.privacy.api import Answer, Query, Refused

_BEAT = "beat"
_MIXING = MixingOnly()


class Rounds:
    """The state machine of learners in rounds, which stores only public settings.

    Args:
        schedule: the public schedule.
        algorithm: the algorithm for private rounds.
        start: float64[P], the initial model, which all devices share.
    """

    def __init__(self, schedule: RoundsSchedule, algorithm: RoundAlgorithm, start: Floats) -> None:
        self.schedule = schedule
        self.algorithm = algorithm
        self._start = start
        self._beat = schedule.period / (BEATS_PER_PHASE * len(algorithm.widths))

    def initial_state(self) -> RoundsState:
        """Return the initial state of a device that joins."""
        zeros = np.zeros(self.schedule.size)
        return RoundsState(Work(0, self.schedule.rate(0), self._start, zeros, zeros))

    def without_state(self, releases: int) -> RoundsState:
        """Return the state after the rounds that the existing releases paid for; neighbours report any later rounds."""
        round_number = -(-releases // max(1, self.algorithm.questions))
        return replace(self._reset_for_round(self.initial_state(), round_number), joining=round_number > 0)

    def restore(self, state: RoundsState, pending: frozenset[str]) -> RoundsState:
        """Return a saved state, in which this device's unfinished round counts as over; see Learner.restore."""
        restored = replace(self.initial_state(), work=state.work, exhausted=state.exhausted, simulated=state.simulated)
        return replace(self._reset_for_round(restored, state.cycle), pending=pending, joining=state.cycle > 0)

    def progress(self, state: RoundsState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        round_number, steps = state.work.round, self.schedule.steps
        return Progress(
            phase="mixing" if state.exhausted or round_number >= steps else "learning",
            steps_done=min(round_number, steps),
            steps=steps,
            exhausted=state.exhausted,
            details={
                "late_s": state.delay,
                "drift_rounds": state.drift,
                "missed_phases": state.missed_phases,
                "absent_neighbours": len(state.absent_neighbours),
            },
        )

    def start(self, state: RoundsState, now: float) -> Step:
        """Begin at once. After a restart, first wait until the neighbours' round is known or a deadline has passed."""
        listening = self.schedule.deadline * self.schedule.period if state.joining else 0.0
        published = PublishModel(state.work.model, state.cycle)
        return replace(state, next_round_time=now + listening), [SetTimer(_BEAT, now), published]

    def on(self, state: RoundsState, event: Event, now: float) -> Step:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid; the state is left unchanged.
        """
        match event:
            case Timer():
                state, effects = self._tick(state, now)
                return state, [*effects, SetTimer(_BEAT, now + self._beat)]
            case Received(sender, message):
                return self._process_and_ask(
                    note_message(state, sender, self._validate_message(state, sender, message))
                )
            case Delivered(recipient) | Returned(recipient):
                return send_next(state, recipient)
            case PeersChanged(peers):
                return replace(
                    state, neighbours=tuple(sorted(peers)), expected_neighbours=state.expected_neighbours & set(peers)
                ), []
            case _:
                return self._handle_answer(state, event)

    def _tick(self, state: RoundsState, now: float) -> Step:
        """Handle a beat, on which at most one phase ends and the next begins."""
        effects: list[Effect] = []
        if state.pending_query is not None:
            return state, effects
        if (leading := find_majority_round(state)) >= state.work.round + (0 if state.joining else MAX_BEHIND + 1):
            state = replace(self._reset_for_round(state, leading + 1), next_round_time=now)
        elif state.phase != RESTING:
            state, effects = self._end_phase(state, now)
        if state.phase == RESTING and (now >= state.next_round_time - self._beat / 2 or leading >= state.work.round):
            state, new_effects = self._begin_round(state, now)
            effects += new_effects
        return state, effects

    def _reset_for_round(self, state: RoundsState, round_number: int) -> RoundsState:
        """Reset the state to the beginning of round `round_number`."""
        work = replace(state.work, round=round_number, rate=self.schedule.rate(round_number), answers={}, received=())
        return without_finished_phases(replace(state, work=work, phase=RESTING))

    def _begin_round(self, state: RoundsState, now: float) -> Step:
        due = min(state.next_round_time, now)
        state = replace(
            state,
            work=replace(state.work, neighbours=state.neighbours),
            joining=False,
            expected_neighbours=frozenset(state.neighbours) - state.absent_neighbours,
            delay=now - due,
            next_round_time=max(due + self.schedule.period, now),
        )
        state, effects = self._enter_phase(state, 0, now)
        return state, [*effects, PublishModel(state.work.model, state.cycle)]

    def _enter_phase(self, state: RoundsState, phase: int, now: float) -> Step:
        """Begin a phase by sending messages to the neighbours and querying the vault."""
        algorithm, effects = self._algorithm(state.work.round), list[Effect]()
        state = replace(
            state, phase=phase, phase_start=now, work=replace(state.work, received=(*state.work.received[:phase], {}))
        )
        for recipient in state.neighbours if algorithm.widths[phase] else ():
            vectors = algorithm.message(state.work, phase, recipient).astype(np.float32)
            message = RoundMessage(state.work.round, phase, len(state.neighbours), vectors, state.simulated)
            state, sends = send_or_queue(state, recipient, message)
            effects += sends
        state, asks = self._process_and_ask(without_finished_phases(state))
        return state, [*effects, *asks]

    def _end_phase(self, state: RoundsState, now: float) -> Step:
        """End the phase once all messages have arrived or its deadline has passed."""
        algorithm, phase = self._algorithm(state.work.round), state.phase
        late = missing_neighbours(state) if algorithm.widths[phase] else frozenset[str]()
        if late and now < state.phase_start + self.schedule.deadline * self.schedule.period - self._beat / 2:
            return state, []
        if late:
            state = replace(
                state,
                absent_neighbours=state.absent_neighbours | late,
                expected_neighbours=state.expected_neighbours - late,
                missed_phases=state.missed_phases + 1,
            )
        received = state.work.received[phase]
        degrees = {peer: state.messages[state.work.round, phase, peer].degree for peer in received}
        mixing = Mixing.from_degrees(len(state.work.neighbours), degrees)
        work = algorithm.combined(replace(state.work, mixing=mixing), phase)
        state = replace(state, work=_clip_vectors(work))
        if phase + 1 < len(algorithm.widths):
            return self._enter_phase(state, phase + 1, now)
        published = PublishModel(state.work.model, state.cycle)
        return self._reset_for_round(state, state.work.round + 1), [published]

    def _process_and_ask(self, state: RoundsState) -> Step:
        """Process the messages for the current phase, and send the vault its next query if one is possible now."""
        if state.phase == RESTING:
            return state, []
        state, algorithm = _add_messages(state), self._algorithm(state.work.round)
        if state.pending_query is not None or state.exhausted:
            return state, []
        if (question := algorithm.question(state.work, state.phase)) is None:
            return state, []
        position, point = question
        query = Query(self.schedule.learner, "gradient", state.work.round * self.algorithm.questions + position, point)
        return replace(state, pending_query=query.id, position=position), [Ask(query)]

    def _handle_answer(self, state: RoundsState, answer: Answer) -> Step:
        """Process the vault's answer if it is the awaited one, and ignore it otherwise."""
        if answer.query_id != state.pending_query:
            return state, []
        state = replace(state, pending_query=None)
        if isinstance(answer, Refused):
            return replace(state, exhausted=True), []
        gradient = np.clip(answer.value * (answer.step / self.schedule.batch), -LARGEST, LARGEST)
        work = self.algorithm.taken(state.work, state.position, gradient)
        return self._process_and_ask(
            replace(state, work=_clip_vectors(work), simulated=state.simulated or answer.simulated)
        )

    def _algorithm(self, round_number: int) -> RoundAlgorithm:
        return self.algorithm if round_number < self.schedule.steps else _MIXING

    def _validate_message(self, state: RoundsState, sender: str, message: Message) -> RoundMessage:
        """Return the message after checking that the neighbour may send it.

        Raises:
            MessageRefused: if the sender is not a neighbour, or the message is invalid.
        """
        if not isinstance(message, RoundMessage):
            raise MessageRefused(
                "learner", "the message is not for a learner in rounds: use the same learner.name on both devices"
            )
        if sender not in state.neighbours:
            raise MessageRefused(
                "neighbour", f"{sender} is not a neighbour of this device: list each under the other's transport.peers"
            )
        widths = self._algorithm(message.round).widths
        if message.phase >= len(widths) or len(message.vectors) not in (0, widths[message.phase]):
            raise MessageRefused("phase", "the phase is unknown: use the same [learner] table on both devices")
        if len(message.vectors) and message.vectors.shape[1:] != (self.schedule.size,):
            raise shape_refusal(
                f"vectors of shape {message.vectors.shape} do not fit a model of {self.schedule.size} parameters"
            )
        if message.round < 0 or message.degree < 1 or not (np.abs(message.vectors) <= LARGEST).all():
            raise MessageRefused("range", "values this large cannot have been learnt, so their sender fabricated them")
        return message


def _add_messages(state: RoundsState) -> RoundsState:
    """Add the messages for the current phase to the work, except messages without vectors."""
    *earlier, received = state.work.received
    current, eligible = (state.work.round, state.phase), set(state.work.neighbours).difference(received)
    new = {
        key[2]: message
        for key, message in state.messages.items()
        if key[:2] == current and key[2] in eligible and len(message.vectors)
    }
    if not new:
        return state
    received = {**received, **{peer: message.vectors.astype(np.float64) for peer, message in new.items()}}
    simulated = state.simulated or any(message.simulated for message in new.values())
    return replace(state, work=replace(state.work, received=(*earlier, received)), simulated=simulated)


def _clip_vectors(work: Work) -> Work:
    """Clip the model and the direction to the range that a message allows."""
    model, direction = (np.clip(vector, -LARGEST, LARGEST) for vector in (work.model, work.direction))
    return replace(work, model=model, direction=direction)
