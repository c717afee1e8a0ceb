"""Observers that recover releases from the messages of learners in rounds.

The emulated neighbours send each message back. The mean of equal vectors is that vector, so only the device's own
gradient changes the model between rounds. The device's answer to a neighbour is a gradient at the neighbour's model.
"""

from dataclasses import replace

import numpy as np
from sottovoce.algorithms.rounds.public import RoundAlgorithm, RoundMessage, Rounds, RoundsSchedule
from sottovoce.errors import InternalError
from sottovoce.learning.learners import Message
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Vault
from sottovoce_papers.pdsl_2025.public.dp_cga import DpCga
from sottovoce_papers.pdsl_2025.public.pdsl import Pdsl

from sottovoce_lab.auditor.subject import Floats, ObservedRun, Observer
from sottovoce_lab.auditor.wiretap import Frame, overhear

_RATE = 1e-5  # small enough that the model, and hence each canary's gradient, stays close to its initial value


def create_rounds_observer(terms: GradientTerms, size: int, algorithm: RoundAlgorithm) -> Observer:
    """Return an observer that inverts a learner in rounds.

    Messages contain float32 values, so a release is known to within a millionth of its noise.

    Args:
        terms: the terms of the learner's vault.
        size: the number of model parameters.
        algorithm: defines the steps in a round, without momentum.
    """
    rounds = terms.releases // algorithm.questions
    schedule = RoundsSchedule(terms.learner, size, 1.0, rounds, _RATE, 0.0, 1.0, 1.0)
    answering = isinstance(algorithm, Pdsl | DpCga)
    step_first = algorithm.widths[0] == 0  # the first message already includes one step

    def echo(message: Message) -> Message | None:
        if not isinstance(message, RoundMessage) or message.round > rounds:
            return None
        return replace(message, vectors=message.vectors[:0]) if answering and message.phase == 1 else message

    def observe_device(vault: Vault, count: int) -> ObservedRun:
        # neighbours cannot see how many records there are
        zeros = np.zeros(size)
        models: dict[int, Floats] = {0: zeros} if step_first else {}
        answers: dict[int, list[Floats]] = {turn: [] for turn in range(rounds)}
        for frame in overhear(Rounds(schedule, algorithm, zeros), vault, rounds + 2.5, echo):
            message = _message(frame)
            vectors = message.vectors.astype(np.float64)
            if answering and message.phase == 1 and message.round < rounds:
                answers[message.round] += list(vectors)
            elif message.phase == (1 if step_first and message.round < rounds else 0):
                models.setdefault(message.round + step_first, vectors[0])
        values, points = [], []
        for turn in range(rounds):
            releases = [(models[turn] - models[turn + 1]) / _RATE, *answers[turn]]
            values += releases
            points += [models[turn]] * len(releases)
        return ObservedRun(np.array(values), np.array(points))

    return observe_device


def _message(frame: Frame) -> RoundMessage:
    if not isinstance(frame.message, RoundMessage):
        raise InternalError(
            f"a learner sent a message of an unexpected type to {frame.recipient}: this is a bug; please report it"
        )
    return frame.message
