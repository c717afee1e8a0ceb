"""Partition of one data set among many agents, for testbeds and simulations, reproducible from a seed.

Annotations that mention `np.random` are quoted because numpy loads that module on first use. An agent never partitions
records, so it saves the module's 7 MB.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import DataError

Indices = NDArray[np.int64]

_NAMES = "iid, iid(K), one-record, dirichlet(ALPHA), by-group, one-group, each-group, overlapping, overlapping(N)"
_ALPHAS = (1e-3, 1e6)


def partition(
    name: str, labels: NDArray[np.int64], agents: int, seed: int, groups: NDArray[np.int64] | None = None
) -> list[Indices]:
    """Choose which records each agent gets.

    Args:
        name: `iid`: all records at random, in shares that differ by at most one record; `iid(K)`: K random records per
            agent; `one-record`: one random record per agent; `dirichlet(ALPHA)`: the records of each class in
            proportions drawn from a symmetric Dirichlet distribution (Yurochkin et al. 2019, arXiv:1905.12022), which
            are less even for a smaller ALPHA; `by-group`: whole groups, largest first, assigned to the agents in
            round-robin order; `one-group`: one random group per agent; `each-group`: group i for agent i, as numbered,
            so there must be as many groups as agents; `overlapping(N)`: N random records per agent,
            drawn for each agent separately from all records (Jin, He & Dai 2023, second study); `overlapping`: all
            records for every agent. Except with `overlapping` and `overlapping(N)`, no record goes to two agents.
            `iid`, `dirichlet` and `by-group` assign every record and may leave an agent without records.
        labels: label of each record, int64[n].
        agents: number of agents, at least 1.
        seed: seed, non-negative; the same seed gives the same partition.
        groups: int64[n], group of each record; only for `by-group`, `one-group` and `each-group`.

    Returns:
        The sorted positions of each agent's records, int64.

    Raises:
        DataError: for an unknown name, a value out of range, no agents, too few records or groups, or missing groups.
    """
    if agents < 1:
        raise DataError("There are no agents to divide the records among. Specify at least one agent.")
    generator, n = _generator(seed), len(labels)
    if name == "iid":
        return _sorted(np.array_split(generator.permutation(n), agents))
    if name == "one-record":
        return list(one_record(n, agents, seed)[:, np.newaxis])
    if name == "by-group":
        return _by_group(_required_groups(name, groups), agents, generator)
    if name == "one-group":
        return _one_group(_required_groups(name, groups), agents, generator)
    if name == "each-group":
        return _each_group(_required_groups(name, groups), agents)
    if name == "overlapping":
        return [np.arange(n, dtype=np.int64) for _ in range(agents)]
    match = re.fullmatch(r"(iid|dirichlet|overlapping)\(([^()]*)\)", name)
    if match is None:
        raise DataError(f"There is no partition {name!r}. Known partitions: {_NAMES}.")
    if match[1] == "dirichlet":
        return _dirichlet(_alpha(match[2]), labels, agents, generator)
    if match[1] == "iid":
        share = _count(name, match[2], n // agents)
        return _sorted(list(generator.permutation(n)[: share * agents].reshape(agents, share)))
    share = _count(name, match[2], n)
    return _sorted([generator.permutation(n)[:share] for _ in range(agents)])


def max_holders(parts: list[Indices]) -> int:
    """Return the largest number of agents that share a record, each of which spends budget on it."""
    return int(np.bincount(np.concatenate(parts), minlength=1).max())


def one_record(n: int, agents: int, seed: int) -> Indices:
    """Choose one random record for each agent, as in the partition `one-record`.

    Args:
        n: number of records.
        agents: number of agents.
        seed: seed, non-negative; the same seed gives the same partition.

    Returns:
        The positions of the agents' records, int64[agents], all different.

    Raises:
        DataError: if there are fewer records than agents, or the seed is out of range.
    """
    if n < agents:
        raise DataError(f"{n} records are too few to assign one to each of {agents} agents. Use fewer agents.")
    return _generator(seed).permutation(n)[:agents].astype(np.int64)


def holdout(n: int, seed: int, fraction: float = 0.2) -> tuple[Indices, Indices]:
    """Hold out random records for testing.

    Args:
        n: number of records.
        seed: seed, non-negative; the same seed gives the same split.
        fraction: fraction to hold out, from 0 up to but not including 1, rounded to the nearest whole record.

    Returns:
        The sorted positions of the training records and of the test records, int64, disjoint and covering 0 … n-1.

    Raises:
        DataError: if the fraction or the seed is out of range.
    """
    if not 0 <= fraction < 1:
        raise DataError("The fraction held out for testing must be at least 0 and less than 1.")
    order = _generator(seed).permutation(n)
    test, train = _sorted(np.split(order, [round(n * fraction)]))
    return train, test


def _required_groups(name: str, groups: Indices | None) -> Indices:
    if groups is None:
        raise DataError(
            f"The partition {name} requires groups. Store an npz array `groups`, or add &group=COLUMN to a CSV SPEC."
        )
    return groups


def _one_group(groups: Indices, agents: int, generator: "np.random.Generator") -> list[Indices]:
    distinct = np.unique(groups)
    count = len(distinct)
    if count < agents:
        raise DataError(f"{count} groups are too few to assign one to each of {agents} agents. Use fewer agents.")
    return [np.flatnonzero(groups == group).astype(np.int64) for group in generator.permutation(distinct)[:agents]]


def _each_group(groups: Indices, agents: int) -> list[Indices]:
    if (count := int(groups.max(initial=-1)) + 1) > agents:
        raise DataError(f"There are {count} groups for {agents} agents. With each-group, use one agent per group.")
    return [np.flatnonzero(groups == group).astype(np.int64) for group in range(agents)]


def _by_group(groups: Indices, agents: int, generator: "np.random.Generator") -> list[Indices]:
    sizes = np.bincount(groups)
    shuffled = generator.permutation(len(sizes))  # the seed decides the order of groups of equal size
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    holder = np.empty(len(sizes), dtype=np.int64)
    holder[order] = np.arange(len(sizes)) % agents
    return [np.flatnonzero(holder[groups] == agent).astype(np.int64) for agent in range(agents)]


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


def _count(name: str, text: str, maximum: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= maximum:
        raise DataError(f"{name}: the number of records per agent must be from 1 to {maximum}.")
    return int(text)


def _generator(seed: int) -> "np.random.Generator":
    if seed < 0:
        raise DataError("The seed must not be negative.")
    return np.random.Generator(np.random.PCG64(seed))


def _sorted(parts: list[NDArray[Any]]) -> list[Indices]:
    return [np.sort(part).astype(np.int64) for part in parts]
