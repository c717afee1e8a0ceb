"""Records: where they come from, what may be done to them in public, and who holds which."""

from sottovoce.data.bounds import Bounds, uniform_bounds
from sottovoce.data.dataset import DataSet
from sottovoce.data.partition import holdout, partition
from sottovoce.data.records import Records, checked
from sottovoce.data.spec import DataSpec, load, parse
from sottovoce.data.transform import BIAS, TransformName, apply, centred_unit, width

__all__ = [
    "BIAS",
    "Bounds",
    "DataSet",
    "DataSpec",
    "Records",
    "TransformName",
    "apply",
    "centred_unit",
    "checked",
    "holdout",
    "load",
    "parse",
    "partition",
    "uniform_bounds",
    "width",
]
