"""Selection of the records that belong to the units of a charge."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.privacy.accounting.units import EVERY, Units


def find_positions(records: Records, units: Units | None) -> NDArray[np.int64]:
    """Return the positions of the records that belong to these units, int64[m], ascending.

    Raises:
        InternalError: if only some units are requested and the records' units are not known.
    """
    if units == EVERY:
        return np.arange(len(records), dtype=np.int64)
    if records.units is None:
        raise InternalError("records without units were selected by unit: this is a bug; please report it")
    selected = np.zeros(len(records), dtype=np.bool_)
    for first, last in units.spans if units is not None else ():
        selected |= (records.units >= first) & (records.units <= last)
    return np.flatnonzero(selected)


def select_units(records: Records, units: Units | None) -> Records:
    """Return these units' records in their original order, or no records if `units` is None. See `find_positions`."""
    return records if units == EVERY else records.at(find_positions(records, units))
