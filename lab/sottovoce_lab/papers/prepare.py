"""Fit transforms to all training records, as in the papers, without charging their release to any ε."""

import re
from dataclasses import replace

import numpy as np
from sottovoce.data import DataSet, Records
from sottovoce.errors import UsageError

from sottovoce_lab.simulator.partition import holdout

_TEST_SHARE = 0.2
_SPLIT = 0  # the split is part of the data set, and is therefore the same for every seed


def prepare_data(data: DataSet, method: str) -> DataSet:
    """Return a data set with transformed features; without a test set, a fifth of its records become the test set.

    Args:
        data: the data set.
        method: `standardise` for mean 0 and deviation 1 per feature; `pca(K)` for the first K principal components.

    Raises:
        UsageError: if the transform does not exist.
    """
    records, held_back = data.records, data.test
    if held_back is None:
        rest, last = holdout(len(records), _SPLIT, _TEST_SHARE)
        records, held_back = records.at(rest), records.at(last)
    train, test = records.features.astype(np.float64), held_back.features.astype(np.float64)
    mean = train.mean(axis=0)
    train -= mean
    test -= mean
    if method == "standardise":
        deviation = train.std(axis=0)
        deviation[deviation == 0] = 1
        train /= deviation
        test /= deviation
    elif match := re.fullmatch(r"pca\((\d+)\)", method):
        _, vectors = np.linalg.eigh(train.T @ train)
        components = vectors[:, ::-1][:, : int(match[1])]
        train, test = train @ components, test @ components
    else:
        raise UsageError(f"prepare = {method}: unknown transform; use standardise or pca(K)")
    return replace(data, records=Records(train, records.labels), test=Records(test, held_back.labels), bounds=None)
