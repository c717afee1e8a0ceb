"""What neighbours make of the messages of a learner in rounds: every release behind them.

The emulated neighbours send each message back. A mean of equal vectors is that vector, so from round to round the model
moves by the device's own gradient alone; and what it answers a neighbour is a gradient at the model that it sent.
"""

from dataclasses import replace

import numpy as np

from sottovoce.algorithms.rounds.public import (
    Algorithm,
    DpCga,
    DpDpsgd,
    DpNetFleet,
    Muffliato,
    Pdsl,
    Rationing,
    RoundMessage,
    Rounds,
    RoundsSchedule,
    Weighing,
)
from sottovoce.audit.subject import Floats, Sighting, Watch
from sottovoce.audit.wiretap import Frame, overheard
from sottovoce.errors import InternalError
from sottovoce.learners import Message
from sottovoce.vault import GradientTerms, Vault

_RATE = 1e-5  # so small a step keeps the model, hence every canary's gradient, close to where it began
_STEP_FIRST = ("muffliato", "dp-net-fleet")  # what they send at first is a step along already


def watch(terms: GradientTerms, size: int, questions: int) -> Watch:
    """Undoes a learner in rounds. Messages are float32, so a release is known to a millionth of its noise.

    Args:
        terms: what its vault is asked for.
        size: parameters of the model.
        questions: gradients that a device is asked for in a round: its own, and those of its neighbours.
    """
    learner, rounds = terms.learner, terms.releases // questions
    algorithm = _algorithm(learner, questions)
    schedule = RoundsSchedule(learner, size, 1.0, rounds, _RATE, 0.0, 1.0, 1.0)
    answering = isinstance(algorithm, Pdsl | DpCga)

    def echoed(message: Message) -> Message | None:
        if not isinstance(message, RoundMessage) or message.round > rounds:
            return None
        return replace(message, vectors=message.vectors[:0]) if answering and message.phase == 1 else message

    def watched(vault: Vault, count: int) -> Sighting:
        del count  # private
        zeros = np.zeros(size)
        models: dict[int, Floats] = {0: zeros} if learner in _STEP_FIRST else {}
        answers: dict[int, list[Floats]] = {turn: [] for turn in range(rounds)}
        for frame in overheard(Rounds(schedule, algorithm, zeros), vault, rounds + 2.5, echoed):
            message = _message(frame)
            vectors = message.vectors.astype(np.float64)
            if answering and message.phase == 1 and message.round < rounds:
                answers[message.round] += list(vectors)
            elif message.phase == (1 if learner in _STEP_FIRST and message.round < rounds else 0):
                models.setdefault(message.round + (learner in _STEP_FIRST), vectors[0])
        values, points = [], []
        for turn in range(rounds):
            seen = [(models[turn] - models[turn + 1]) / _RATE, *answers[turn]]
            values += seen
            points += [models[turn]] * len(seen)
        return Sighting(np.array(values), np.array(points))

    return watched


def _algorithm(learner: str, questions: int) -> Algorithm:
    match learner:
        case "pdsl":
            return Pdsl(Rationing(questions), Weighing("uniform"), 0.0)
        case "dp-cga":
            return DpCga(Rationing(questions), 0.0)
        case "muffliato":
            return Muffliato((0.0,))
        case "dp-net-fleet":
            return DpNetFleet(questions)
        case _:
            return DpDpsgd()


def _message(frame: Frame) -> RoundMessage:
    if not isinstance(frame.message, RoundMessage):
        raise InternalError(f"a learner sent a message of another kind to {frame.recipient}: report this")
    return frame.message
