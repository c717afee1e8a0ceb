"""Durable state of a device that averages in pairs, in push-sum's form: with weight 1, or 0 while the device is blank.

So a device that mixed by push-sum before continues from its last estimate of the model.
"""

import numpy as np

from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.steps.mixing_state import decoded, encoded
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT

_ONE = int(UNIT)
_MIN = _ONE >> 20  # as in push-sum: below this weight there is no model


class PairwiseCodec:
    """Implementation of StateCodec for devices that average in pairs."""

    def __init__(self, learner: Pairwise) -> None:
        self._size = learner.schedule.size

    def encode(self, state: PairwiseState) -> bytes:
        """See StateCodec.encode."""
        return encoded(state, 0 if state.blank else _ONE)

    def decode(self, raw: bytes) -> PairwiseState:
        """See StateCodec.decode."""
        weight, saved = decoded(raw, self._size)
        if weight not in (0, _ONE):
            believed = np.rint(saved["numerator"] / max(weight, _MIN) * UNIT)
            saved["numerator"] = np.clip(believed, -MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        return PairwiseState(blank=weight < _MIN, **saved)
