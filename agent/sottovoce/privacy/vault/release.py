"""The only implementation of Release. Only the vault imports this module."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.api import PrivacyStatement


@dataclass(frozen=True, slots=True)
class SealedRelease:
    """A charged, stored and privatised array. See sottovoce.privacy.api.Release."""

    query_id: bytes
    value: NDArray[np.int64]
    step: float
    statement: PrivacyStatement
    simulated: bool
    units: int
