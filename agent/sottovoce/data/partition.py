"""Dealing one data set out to many agents, for testbeds and simulations. Reproducible from a seed.

Annotations that name `np.random` are quoted: numpy loads it on first use, and an agent, which never deals, is spared
its 7 MB.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError

Indices = NDArray[np.int64]

_NAMES = "iid, one-record, dirichlet(ALPHA)"
_ALPHAS = (1e-3, 1e6)


def partition(name: str, labels: NDArray[np.int64], agents: int, seed: int) -> list[Indices]:
    """Choose which records each agent holds. No record goes to two agents.

    Args:
        name: `iid`: every record dealt at random, shares differ by at most one record; `one-record`: one random
            record each; `dirichlet(ALPHA)`: the records of each class dealt in proportions drawn from a symmetric
            Dirichlet distribution (Yurochkin et al. 2019, arXiv:1905.12022), more uneven as
            ALPHA falls. `iid` and `dirichlet` deal every record and may leave an agent without any.
        labels: int64[n].
        agents: how many agents there are, at least 1.
        seed: not negative; the same seed gives the same partition.

    Returns:
        for each agent, the sorted positions of its records, int64.

    Raises:
        DataError: an unknown name, an ALPHA out of range, no agents, or `one-record` with fewer records than agents.
    """
    if agents < 1:
        raise DataError("A partition needs at least one agent. Raise the number of agents.")
    generator = _generator(seed)
    if name == "iid":
        return _sorted(np.array_split(generator.permutation(len(labels)), agents))
    if name == "one-record":
        return list(one_record(len(labels), agents, seed)[:, np.newaxis])
    match = re.fullmatch(r"dirichlet\(([^()]*)\)", name)
    if match is None:
        raise DataError(f"There is no partition {name!r}. Known partitions: {_NAMES}.")
    return _dirichlet(_alpha(match[1]), labels, agents, generator)


def one_record(n: int, agents: int, seed: int) -> Indices:
    """Choose one random record for each agent, as the partition `one-record` does.

    Args:
        n: the number of records.
        agents: how many agents there are.
        seed: not negative; the same seed gives the same partition.

    Returns:
        the positions of the agents' records, int64[agents], all different.

    Raises:
        DataError: fewer records than agents, or the seed is out of range.
    """
    if n < agents:
        raise DataError(f"{n} records do not give each of {agents} agents one. Take fewer agents.")
    return _generator(seed).permutation(n)[:agents].astype(np.int64)


def holdout(n: int, seed: int, fraction: float = 0.2) -> tuple[Indices, Indices]:
    """Set random records aside for testing.

    Args:
        n: the number of records.
        seed: not negative; the same seed gives the same split.
        fraction: the share to set aside, from 0 up to but not including 1, rounded to the nearest whole record.

    Returns:
        the sorted positions of the training and of the test records, int64, disjoint and covering 0 … n-1.

    Raises:
        DataError: the fraction or the seed is out of range.
    """
    if not 0 <= fraction < 1:
        raise DataError("The share set aside for testing must be at least 0 and below 1.")
    order = _generator(seed).permutation(n)
    test, train = _sorted(np.split(order, [round(n * fraction)]))
    return train, test


def _dirichlet(alpha: float, labels: NDArray[np.int64], agents: int, generator: "np.random.Generator") -> list[Indices]:
    parts: list[list[Indices]] = [[np.empty(0, dtype=np.int64)] for _ in range(agents)]
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(agents, alpha))
        cuts = np.floor(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for part, chunk in zip(parts, np.split(members, cuts), strict=True):
            part.append(chunk)
    return _sorted([np.concatenate(part) for part in parts])


def _alpha(text: str) -> float:
    lowest, highest = _ALPHAS
    try:
        alpha = float(text)
    except ValueError:
        alpha = 0.0
    if not lowest <= alpha <= highest:
        raise DataError(f"dirichlet({text}): ALPHA must be a number from {lowest:g} to {highest:g}.")
    return alpha


def _generator(seed: int) -> "np.random.Generator":
    if seed < 0:
        raise DataError("The seed must not be negative.")
    return np.random.Generator(np.random.PCG64(seed))


def _sorted(parts: list[NDArray[Any]]) -> list[Indices]:
    return [np.sort(part).astype(np.int64) for part in parts]
