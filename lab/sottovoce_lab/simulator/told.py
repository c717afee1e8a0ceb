"""Altered answers that a learner receives in place of its vault's."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.door import PrivacyStatement


@dataclass(frozen=True, slots=True)
class Told:
    """Implementation of Release with an altered value."""

    query_id: bytes
    value: NDArray[np.int64]
    step: float
    statement: PrivacyStatement
    simulated: bool
    units: int
