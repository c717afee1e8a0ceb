"""Two data sets from scikit-learn for trying out Sottovoce without a data file."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import uniform_bounds
from sottovoce.data.dataset import Table
from sottovoce.errors import DataError

# The ranges below state the scale of each quantity, from 0 to 1, 2 or 5 times a power of ten. They are derived from the
# published description of the features (lengths in pixels of a nucleus in a microscope image, the standard deviation of
# 8-bit grey values, ratios of such lengths) and are not computed from these records. A quantity has the same range for
# the mean over all nuclei and for the mean of the three largest; the range of its standard error is a fifth of that,
# rounded up. The published table of extremes was used only to check that the ranges are wide enough.
_QUANTITIES: dict[str, tuple[float, float]] = {  # quantity: (range of mean and worst, range of the standard error)
    "radius": (50.0, 10.0),
    "texture": (100.0, 20.0),
    "perimeter": (500.0, 100.0),
    "area": (10_000.0, 2_000.0),
    "smoothness": (0.5, 0.1),
    "compactness": (2.0, 0.5),
    "concavity": (2.0, 0.5),
    "concave points": (0.5, 0.1),
    "symmetry": (1.0, 0.2),
    "fractal dimension": (0.5, 0.1),
}


def digits() -> Table:
    """Load 8 by 8 images of handwritten digits with pixel values from 0 to 16: float64[1797,64], 10 classes.

    Raises:
        DataError: if scikit-learn is not installed.
    """
    features, labels = _load_table("digits.csv.gz")
    bounds = uniform_bounds(0.0, 16.0, features.shape[1], "digits")
    return Table(name="digits", rows=(features, labels), classes=10, bounds=bounds, origin="digits")


def breast_cancer() -> Table:
    """Load the Wisconsin diagnostic breast cancer data: float64[569,30], class 0 malignant and 1 benign.

    Raises:
        DataError: if scikit-learn is not installed.
    """
    features, labels = _load_table("breast_cancer.csv", header=1)
    values = [value for value, _ in _QUANTITIES.values()]
    errors = [error for _, error in _QUANTITIES.values()]
    high = np.array(values + errors + values)  # published column order: mean, standard error, worst
    return Table(
        name="breast-cancer",
        rows=(features, labels),
        classes=2,
        bounds=(np.zeros_like(high), high),
        origin="breast-cancer",
    )


def _load_table(file: str, header: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the features and labels of a table in scikit-learn without importing it, so that demos start quickly.

    Args:
        file: name of the file in scikit-learn's data directory.
        header: number of lines before the first record.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError(
            "This data set is part of scikit-learn, which is not installed. Run: pip install 'sottovoce[demo]'"
        )
    path = Path(package.origin).with_name("datasets") / "data" / file
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=header)
    except OSError as error:
        raise DataError(f"The installed scikit-learn does not include this data set: {error}") from error
    return table[:, :-1], table[:, -1].astype(np.int64)
