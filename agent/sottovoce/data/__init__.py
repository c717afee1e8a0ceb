"""Record sources, and public transforms of records."""

from sottovoce.data.bounds import Bounds, uniform_bounds
from sottovoce.data.dataset import DataSet, Declaration, Table, Target
from sottovoce.data.records import Records, add_identities, check_records
from sottovoce.data.spec import DataSpec, load, parse
from sottovoce.data.synthetic import synthetic, two_gaussians
from sottovoce.data.transform import BIAS, TransformName, apply, centred_unit, prepare_records, width

__all__ = [
    "BIAS",
    "Bounds",
    "DataSet",
    "DataSpec",
    "Declaration",
    "Records",
    "Table",
    "Target",
    "TransformName",
    "add_identities",
    "apply",
    "centred_unit",
    "check_records",
    "load",
    "parse",
    "prepare_records",
    "synthetic",
    "two_gaussians",
    "uniform_bounds",
    "width",
]
