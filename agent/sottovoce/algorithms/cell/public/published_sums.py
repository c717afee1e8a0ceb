"""The sums that a device publishes as results, for its fleet to sign and its owner to read."""

import math

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.cell.public.knowledge import OpenedRound
from sottovoce.algorithms.cell.public.sum_consumer import SumConsumer
from sottovoce.learning.learners.learner import PublishSum


def published_sums(consumer: SumConsumer, opened: OpenedRound, total: NDArray[np.int64]) -> list[PublishSum]:
    """Return the effect that publishes an opened sum, or none if the sum is a step on the way to a model.

    Args:
        consumer: the consumer of the sums.
        opened: the opened round, with all of its vectors.
        total: the sum, int64[P] in grid steps.
    """
    if consumer.noise_share is None:
        return []
    verified = opened.verified
    return [
        PublishSum(
            slot=opened.slot,
            round=verified.round,
            owners=verified.roster.owners,
            survivors=verified.survivors,
            exponent=math.frexp(consumer.grid_step)[1] - 1,
            total=total,
            share=consumer.noise_share(len(verified.roster)),
        )
    ]
