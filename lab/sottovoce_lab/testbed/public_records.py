"""Public labelled records on which a learner scores models, and their sources in a testbed.

`held-apart`: a share of the training part that no agent holds and on which nothing is measured. `test`: some of the
test records, as in the PDSL paper; weights are then chosen on the test records, and the report states this. Either
takes a number of records: `held-apart(200)`.
"""

import re
from dataclasses import dataclass

import numpy as np
from sottovoce.data import Records
from sottovoce.errors import UsageError
from sottovoce.registry import ALGORITHMS

from sottovoce_lab.testbed.options import Options

_MAX = 500
_SHARE = 5  # one record in five at most, if records are few
_SOURCE = re.compile(r"(?P<part>held-apart|test)(\((?P<most>[1-9]\d{0,6})\))?")


@dataclass(frozen=True, slots=True)
class Apart:
    """Places of the training records for agents, and the public records set apart.

    Attributes:
        train: places of the records that agents may hold, ascending.
        public: public records before the transform; None if they are not requested.
        contaminated: whether models are also measured on the public records.
    """

    train: np.ndarray[tuple[int], np.dtype[np.int64]]
    public: Records | None = None
    contaminated: bool = False


def set_apart(options: Options, train: Records, test: Records) -> Apart:
    """Set public records apart, if the learner needs them or `data.validation` requests them.

    Raises:
        UsageError: if `data.validation` names no source.
    """
    source = options.settings.get("data.validation", "held-apart" if _needs_public_records(options) else None)
    if source is None:
        return Apart(np.arange(len(train)))
    named = _SOURCE.fullmatch(str(source))
    if named is None:
        raise UsageError(f"--set data.validation={source}: choose held-apart or test, or held-apart(N) or test(N)")
    most = int(named["most"] or _MAX)
    if named["part"] == "test":
        drawn = _drawn(len(test), most, options.seed)
        return Apart(np.arange(len(train)), test.at(np.flatnonzero(drawn)), contaminated=True)
    drawn = _drawn(len(train), most, options.seed)
    return Apart(np.flatnonzero(~drawn), train.at(np.flatnonzero(drawn)))


def _needs_public_records(options: Options) -> bool:
    scores = options.settings.get("learner.shapley", "exact") in ("exact", "monte-carlo")
    return "shapley" in ALGORITHMS[options.learner].keys and scores and "data.public" not in options.settings


def _drawn(count: int, most: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    drawn = np.zeros(count, dtype=np.bool_)
    drawn[np.random.default_rng((seed, 1)).permutation(count)[: min(most, count // _SHARE)]] = True
    return drawn
