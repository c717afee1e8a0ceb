"""Who holds which records, who sends to whom, and what is held back for measuring."""

from dataclasses import dataclass
from typing import Any

from sottovoce.agent.family import Family, family_of
from sottovoce.config import LEARNERS
from sottovoce.data import (
    Bounds,
    DataSet,
    Records,
    TransformName,
    apply,
    held_by_most,
    holdout,
    load,
    partition,
    uniform_bounds,
)
from sottovoce.simulate import out_peers
from sottovoce.testbed.options import Options


@dataclass(frozen=True, slots=True)
class Plan:
    """A fleet before it is built.

    Attributes:
        options: as asked.
        name: of the data set.
        raw: each agent's own records, before the transform.
        test: records that no agent holds, after it.
        features: columns before the transform.
        classes: labels.
        bounds: declared range of each feature, or None.
        expected_records: B, the same public number for all.
        held_by_most: the largest number of agents that hold one record.
        peers: for each agent, the agents it sends to.
        transform: the declared transform.
        family: what the learner brings along.
        first: the same for the first agent, which begins the walk where one model walks.
        model: the name of its model.
    """

    options: Options
    name: str
    raw: list[Records]
    test: Records
    features: int
    classes: int
    bounds: Bounds | None
    expected_records: float
    held_by_most: int
    peers: list[list[int]]
    transform: TransformName
    family: Family
    first: Family
    model: str

    def learner(self, index: int) -> dict[str, Any]:
        """What the `[learner]` table of one agent has of its own."""
        return _own(self.options, index)

    @property
    def alone(self) -> frozenset[int]:
        """Agents whom nobody sends to and who send to nobody: no peer can tell them of a newer ledger of theirs."""
        met = {i for i, others in enumerate(self.peers) if others} | {j for others in self.peers for j in others}
        return frozenset(range(self.options.agents)) - met

    def data(self, source: str) -> dict[str, Any]:
        """The `[data]` table of an agent whose records are at `source`."""
        return {
            "source": source,
            "features": self.features,
            "classes": self.classes,
            "expected_records": self.expected_records,
        }


def plan(options: Options, data: DataSet | None = None) -> Plan:
    """Load the data, hold a test set back, deal out the rest.

    Args:
        options: as asked.
        data: what `options.data` names, when it is loaded already.

    Raises:
        DataError: the data cannot be read or dealt out.
    """
    data = load(options.data) if data is None else data
    bounds = data.bounds
    train, test, groups = data.records, data.test, data.groups
    if test is None:
        train_rows, test_rows = holdout(len(train), options.seed)
        train, test = train.at(train_rows), train.at(test_rows)
        groups = None if groups is None else groups[train_rows]
    parts = partition(options.partition, train.labels, options.agents, options.seed, groups)
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {
            "source": options.data,
            "features": train.features.shape[1],
            "classes": data.classes,
            "expected_records": sum(map(len, parts)) / options.agents,
        },
    }
    config = options.configuration(**tables)
    data_section = config.data
    if options.ranges_from_training:
        bounds = (train.features.min(axis=0), train.features.max(axis=0))
    elif data_section.bounds is not None:
        bounds = uniform_bounds(*data_section.bounds, data_section.features, "--set data.bounds")
    return Plan(
        options=options,
        name=data.name,
        raw=[train.at(rows) for rows in parts],
        test=Records(apply(data_section.transform, test.features, bounds), test.labels),
        features=train.features.shape[1],
        classes=data.classes,
        bounds=bounds,
        expected_records=data_section.expected_records,
        held_by_most=held_by_most(parts),
        peers=out_peers(options.topology, options.agents, options.seed),
        transform=data_section.transform,
        family=family_of(config),
        first=family_of(options.configuration(**tables, learner=_own(options, 0))),
        model=config.learner.chosen_model,
    )


def _own(options: Options, index: int) -> dict[str, Any]:
    """Where one model goes round, the first agent begins."""
    begins = LEARNERS[options.learner].family in ("gradient_walk", "shared_model")
    return {"begins_walk": True} if begins and index == 0 else {}
