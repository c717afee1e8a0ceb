"""Public labelled records for scoring models, and where a testbed takes them from.

`held-apart` is a share of the training records that no agent holds and that no other measurement uses. `test` is a
sample of the test records, as in the PDSL paper; weights are then chosen on test records, and the report states this.
Both accept a maximum number of records, as in `held-apart(200)`.
"""

import re
from dataclasses import dataclass

import numpy as np
from sottovoce.data import Records
from sottovoce.errors import UsageError
from sottovoce.learning.registry import ALGORITHMS

from sottovoce_lab.testbed.options import Options

_MAX = 500
_SHARE = 5  # with few records, no more than one in five is set apart
_SOURCE = re.compile(r"(?P<part>held-apart|test)(\((?P<maximum>[1-9]\d{0,6})\))?")


@dataclass(frozen=True, slots=True)
class PublicSplit:
    """The positions of the agents' training records, and the public records that are set apart.

    Attributes:
        train: the positions of the records that agents may hold, in ascending order.
        public: the public records before the transform; None if none are needed or requested.
        is_contaminated: whether models are also measured on the public records.
    """

    train: np.ndarray[tuple[int], np.dtype[np.int64]]
    public: Records | None = None
    is_contaminated: bool = False


def split_public_records(options: Options, train: Records, test: Records) -> PublicSplit:
    """Set public records apart if the learner needs them or `data.validation` requests them.

    Raises:
        UsageError: if `data.validation` does not specify a valid source.
    """
    source = options.settings.get("data.validation", "held-apart" if _needs_public_records(options) else None)
    if source is None:
        return PublicSplit(np.arange(len(train)))
    match = _SOURCE.fullmatch(str(source))
    if match is None:
        raise UsageError(f"--set data.validation={source}: choose held-apart, test, held-apart(N) or test(N)")
    max_records = int(match["maximum"] or _MAX)
    if match["part"] == "test":
        chosen = _choose_public(len(test), max_records, options.seed)
        return PublicSplit(np.arange(len(train)), test.at(np.flatnonzero(chosen)), is_contaminated=True)
    chosen = _choose_public(len(train), max_records, options.seed)
    return PublicSplit(np.flatnonzero(~chosen), train.at(np.flatnonzero(chosen)))


def _needs_public_records(options: Options) -> bool:
    scores = options.settings.get("learner.shapley", "exact") in ("exact", "monte-carlo")
    return "shapley" in ALGORITHMS[options.learner].keys and scores and "data.public" not in options.settings


def _choose_public(count: int, max_records: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[np.random.default_rng((seed, 1)).permutation(count)[: min(max_records, count // _SHARE)]] = True
    return chosen
