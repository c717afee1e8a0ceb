"""The Covertype data set (Blackard & Dean, UCI): an npz file of coded columns that are one-hot encoded on loading."""

from pathlib import Path

import numpy as np

from sottovoce.data.dataset import Table
from sottovoce.data.npz import load_arrays
from sottovoce.errors import DataError

_COLUMNS = ("quant", "wilderness", "soil", "y")
_WILDERNESS, _SOILS = 4, 40
_RANGES = (  # ranges of the ten quantities, from forest maps and their units: metres, degrees, hillshade 0 … 255
    *((1800, 3900), (0, 360), (0, 70), (0, 1400), (-180, 610)),
    *((0, 7200), (0, 255), (0, 255), (0, 255), (0, 7200)),
)


def load_covertype(path: Path) -> Table:
    """Load an npz file with `quant` integer[n,10], `wilderness` and `soil` codes, and the cover type `y`, 1 … 7.

    Returns:
        Rows with 54 features, their public ranges, and 7 classes.

    Raises:
        DataError: if the file cannot be read or has another format.
    """
    arrays = load_arrays(path, frozenset(_COLUMNS))
    try:
        quantities, wilderness, soil, cover = (arrays[name] for name in _COLUMNS)
        codes = (np.eye(_WILDERNESS)[wilderness], np.eye(_SOILS)[soil])
        features = np.hstack([quantities, *codes])
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"{path}: not Covertype's coded columns quant, wilderness, soil and y; see its docs") from error
    ranges = np.array([*_RANGES, *[(0, 1)] * (_WILDERNESS + _SOILS)], dtype=np.float64)
    labels = cover.astype(np.int64) - 1
    bounds = (ranges[:, 0], ranges[:, 1])
    return Table(name="covertype", rows=(features, labels), classes=7, bounds=bounds, origin=str(path))
