"""Releases with altered values, which a learner receives instead of its vault's answers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.privacy.api import PrivacyStatement


@dataclass(frozen=True, slots=True)
class AlteredRelease:
    """A release with an altered value. Implements Release."""

    query_id: bytes
    value: NDArray[np.int64]
    step: float
    statement: PrivacyStatement
    simulated: bool
    units: int
