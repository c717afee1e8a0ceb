"""Codec for the durable state of pairwise averaging, in push-sum's format with weight 1, or 0 for a blank device.

A device that mixed by push-sum before therefore continues from its last model estimate.
"""

import numpy as np

from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.steps.mixing_state import decode_state, encode_state
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT

_WEIGHT_ONE = int(UNIT)
_MIN_WEIGHT = _WEIGHT_ONE >> 20  # below this weight there is no model, as in push-sum


class PairwiseCodec:
    """State codec for devices that average in pairs; implements StateCodec."""

    def __init__(self, learner: Pairwise) -> None:
        self._size = learner.schedule.size

    def encode(self, state: PairwiseState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return encode_state(state, 0 if state.is_blank else _WEIGHT_ONE)

    def decode(self, raw: bytes) -> PairwiseState:
        """Decode a state; see StateCodec.decode."""
        weight, saved = decode_state(raw, self._size)
        if weight not in (0, _WEIGHT_ONE):
            estimate = np.rint(saved["numerator"] / max(weight, _MIN_WEIGHT) * UNIT)
            saved["numerator"] = np.clip(estimate, -MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        return PairwiseState(is_blank=weight < _MIN_WEIGHT, **saved)
