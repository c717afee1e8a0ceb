"""The plan for a run: each agent's records, the topology, and the held-out records for measuring."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.centring import find_obstacle
from sottovoce.algorithms.contributions.public.shared_mean import CYCLES as MEAN_CYCLES
from sottovoce.algorithms.family import Family, build_kernel
from sottovoce.algorithms.group_sgd.settings import GroupSgdSettings
from sottovoce.algorithms.push_sum.parts import contributors, first_step, max_contributors
from sottovoce.algorithms.push_sum.settings import MAX_CONTRIBUTORS, PushSumSettings
from sottovoce.algorithms.push_sum.step_count import default_steps, step_count
from sottovoce.config import AgentConfig
from sottovoce.data import (
    Bounds,
    DataSet,
    Declaration,
    Records,
    Target,
    TransformName,
    apply,
    load,
    prepare_records,
    uniform_bounds,
)
from sottovoce.errors import DataError, UsageError
from sottovoce.learning.model_names import REGRESSION_MODEL
from sottovoce.learning.registry import ALGORITHMS
from sottovoce_papers.adad2p_2024.settings import ConstD2pSettings

from sottovoce_lab.simulator import NEWSCAST, out_peers
from sottovoce_lab.simulator.mixing import metropolis, spectral_gap
from sottovoce_lab.simulator.partition import holdout, max_holders, partition
from sottovoce_lab.testbed.gradient_bound import longest_gradient
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.public_records import PublicSplit, split_public_records

_HOLD_OUT_SHARE = 0.2  # fraction of the records to hold out if there is no official test split
_CYCLES_PER_SUM = 3
_NOISELESS_STEPS = 240
"""Private steps without noise, where more of them cost no privacy. With the 48 that suit ε = 2, such runs end up to 6
points below the accuracy at which they converge."""
_ANSWERS = "learner.answers"
_WINDOWS_READ = "the first and last window were read off the data; declare them with data.windows"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for a fleet that is not built yet.

    Attributes:
        options: the requested options.
        config: the configuration of every agent, except the first one if a single model walks.
        name: the data set's name.
        raw: each agent's records, before the transform.
        test: records that no agent holds, after the transform.
        raw_test: the test records before the transform.
        features: the number of columns before the transform.
        classes: the number of labels.
        bounds: each feature's declared range; None if no ranges are declared.
        expected_records: the public expected number of records B, the same for all agents.
        held_by_most: the largest number of agents that hold the same record.
        peers: for each agent, the agents that it sends to.
        transform: the declared transform.
        family: the learner's family.
        first_family: the family of the first agent, which begins the walk if a single model walks.
        model: the model's name.
        target: describes a regression's target; None if it is not declared.
        windows: the first and last window that queries may use if the privacy unit is a window, else None.
        public_split: public records for scoring models, if the learner needs any.
        labels: names of the classes; empty if they have none.
        columns: names of the columns; empty if they have none.
        unproved: why the data set keeps the statement from being proved; empty if it does not.
        gradient_bound: the bound G if the testbed had to measure it, else None.
        averages_in_pairs: whether devices average in pairs only because the fleet is too large for contributions.
    """

    options: Options
    config: AgentConfig
    name: str
    raw: list[Records]
    test: Records
    raw_test: Records
    features: int
    classes: int
    bounds: Bounds | None
    expected_records: float
    held_by_most: int
    peers: list[list[int]]
    transform: TransformName
    family: Family
    first_family: Family
    model: str
    target: Target | None
    windows: tuple[int, int] | None
    public_split: PublicSplit
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    unproved: str
    gradient_bound: float | None = None
    averages_in_pairs: bool = False

    @property
    def dishonest_count(self) -> int:
        """The number of dishonest agents, the last ones in the fleet."""
        dishonesty = self.options.faults.dishonest
        return 0 if dishonesty is None else dishonesty.count_among(self.options.agents)

    def lie(self, index: int) -> str:
        """Return the lie that a dishonest agent tells, or an empty string for an honest agent."""
        dishonesty = self.options.faults.dishonest
        return "" if dishonesty is None or index < self.options.agents - self.dishonest_count else dishonesty.lie

    def learner_keys(self, index: int) -> dict[str, Any]:
        """Return the keys of an agent's `[learner]` table that differ between agents."""
        return _agent_learner_keys(self.options, index, self.peers)

    @property
    def isolated_agents(self) -> frozenset[int]:
        """The agents without any links; no peer can warn such an agent that its ledger is out of date."""
        linked_agents = {i for i, row in enumerate(self.peers) if row} | {j for row in self.peers for j in row}
        return frozenset(range(self.options.agents)) - linked_agents

    def data_table(self, source: str, public: str) -> dict[str, Any]:
        """Return the `[data]` table for an agent with records at `source` and any public records at `public`."""
        return {
            "source": source,
            "features": self.features,
            "classes": self.classes,
            "expected_records": self.expected_records,
            **({} if self.windows is None else {"windows": list(self.windows)}),
            **({} if self.public_split.public is None else {"public": public}),
        }


def plan(options: Options, data: DataSet | None = None) -> Plan:
    """Load the data, hold out a test set, and distribute the remaining records among the agents.

    Args:
        options: the requested options.
        data: the data set in `options.data`, if it is already loaded.

    Raises:
        DataError: if the data cannot be read or distributed.
    """
    data = load(options.data, read_declaration(options.settings)) if data is None else data
    if options.data.startswith("feed:"):
        options = _with_window_unit(options)
    if data.classes == 1:
        options = _with_regression_defaults(options, grouped=data.groups is not None)
    elif options.is_noiseless and options.fits_steps and _takes_public_steps(options):
        options = replace(options, settings={"learner.steps": _NOISELESS_STEPS, **options.settings})
    if data.classes > 1 and data.groups is not None and data.records.windows is not None:  # each meter's days
        options = replace(options, settings={"data.partition": "one-group", **options.settings})
    bounds = data.bounds
    train, test, groups = data.records, data.test, data.groups
    if test is None:
        share = _HOLD_OUT_SHARE if ALGORITHMS[options.learner].predicts else 0.0
        train_rows, test_rows = holdout(len(train), options.seed, share)
        train, test = train.at(train_rows), train.at(test_rows)
        if not len(train) or (share and not len(test)):
            raise DataError(
                f"{options.data}: a fifth of {len(data.records)} records, held out for testing, is none; use more "
                "records, or a source with its own test split"
            )
        groups = None if groups is None else groups[train_rows]
    public_split = split_public_records(options, train, test)
    train, groups = train.at(public_split.train), None if groups is None else groups[public_split.train]
    peers = _peers(options)
    if options.settings.get(_ANSWERS) == "all":
        options = replace(options, settings={**options.settings, _ANSWERS: _gradients_per_round(peers)})
    parts = partition(options.partition, train.labels, options.agents, options.seed, groups)
    windows = _windows(options, train)
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {
            "source": "npz:dealt-out" if options.data.startswith("feed:") else options.data,
            "features": train.features.shape[1],
            "classes": data.classes,
            "expected_records": sum(map(len, parts)) / options.agents,
            **({} if windows is None else {"windows": list(windows)}),
            **({} if public_split.public is None else {"public": "apart"}),
        },
    }
    config = options.configuration(**tables, learner=_agent_learner_keys(options, 1, peers))
    if bounds is None and _gains_by_cell_mean(options, config):
        options = replace(options, settings={**options.settings, "learner.centre": "private"})
        config = options.configuration(**tables, learner=_agent_learner_keys(options, 1, peers))
    centre = options.algorithm.resolved.get("centre")
    if centre is not None and centre(config) == "private":
        options = _with_mean(options)
        config = options.configuration(**tables, learner=_agent_learner_keys(options, 1, peers))
    if options.fits_steps and (cycles := _cycles_for_steps(options, config)) > options.cycles:
        options = replace(options, cycles=cycles)
        config = options.configuration(**tables, learner=_agent_learner_keys(options, 1, peers))
    _check_cell(options, config, peers)
    mixing = _mixing_for_all(options, config)
    if mixing is not None:
        options = replace(options, settings={**options.settings, **mixing})
        config = options.configuration(**tables, learner=_agent_learner_keys(options, 1, peers))
    data_section = config.data
    if options.uses_training_ranges:
        bounds = (train.features.min(axis=0), train.features.max(axis=0))
    elif data_section.bounds is not None:
        bounds = uniform_bounds(*data_section.bounds, data_section.features, "--set data.bounds")
    bound = _gradient_bound(options, config, prepare_records(train, data_section.transform, bounds))
    if bound is not None:
        options = replace(options, settings={**options.settings, "learner.gradient_bound": bound})
        config = options.configuration(**tables, learner=_agent_learner_keys(options, 1, peers))
    public = (
        None if public_split.public is None else prepare_records(public_split.public, data_section.transform, bounds)
    )
    return Plan(
        options=options,
        config=config,
        name=data.name,
        raw=[train.at(rows) for rows in parts],
        test=Records(apply(data_section.transform, test.features, bounds), test.labels),
        raw_test=test,
        features=train.features.shape[1],
        classes=data.classes,
        bounds=bounds,
        expected_records=data_section.expected_records,
        held_by_most=max_holders(parts),
        peers=peers,
        transform=data_section.transform,
        family=_family(config, public),
        first_family=_family(options.configuration(**tables, learner=_agent_learner_keys(options, 0, peers)), public),
        model=options.model or config.learner.chosen_model,
        target=_target(data),
        windows=data_section.windows,
        public_split=public_split,
        labels=data.labels,
        columns=data.columns,
        unproved="; ".join(reason for reason in (data.unproved, "" if windows is None else _WINDOWS_READ) if reason),
        gradient_bound=bound,
        averages_in_pairs=mixing is not None and "learner.mixing" in mixing,
    )


def _takes_public_steps(options: Options) -> bool:
    """Return whether a learner that usually adds noise takes a public number of steps along sums over all records."""
    descends = isinstance(options.learner_settings, PushSumSettings | GroupSgdSettings)
    return descends and options.fidelity == "sound" and not options.algorithm.noiseless


def read_declaration(settings: Mapping[str, Any]) -> Declaration:
    """Return the columns and labels that a run's settings, by dotted key, declare."""
    columns, labels = (tuple(settings.get(key, ())) for key in ("data.columns", "data.labels"))
    return Declaration(columns=columns, labels=labels)


def _with_mean(options: Options) -> Options:
    """Return the options of a run whose devices centre their records, or do not if its cycles are too few for that.

    By default, the mean may take up to a quarter of the cycles.
    """
    first = _CYCLES_PER_SUM if options.algorithm.secure_sums == "always" else MEAN_CYCLES + 1
    if not options.fits_steps and "learner.centre" not in options.settings and options.cycles < 4 * first:
        return replace(options, settings={"learner.centre": "none", **options.settings})
    return replace(options, first_cycles=first)


def _gains_by_cell_mean(options: Options, config: AgentConfig) -> bool:
    """Return whether a cell's members gain by centring their records, if no ranges are declared for the features.

    Without ranges, a record is not centred by their midpoints, so the mean is longer. At ε = 1, it then gains 3 to 13
    points on four tables; with ranges, it loses up to 2 (docs/explanation/secure-sums.md#learning).
    """
    learner = config.learner
    return (
        isinstance(learner, GroupSgdSettings)
        and learner.centre is None
        and config.data.bounds is None
        and not options.is_noiseless
        and (options.fits_steps or options.cycles >= 4 * _CYCLES_PER_SUM)
        and find_obstacle(config) is None
    )


def _cycles_for_steps(options: Options, config: AgentConfig) -> int:
    """Return the smallest number of cycles in which all devices take the learner's steps and then mix."""
    if "learner.steps" in options.settings:
        steps = int(options.settings["learner.steps"])
    elif isinstance(config.learner, PushSumSettings):
        steps = default_steps(config)
    elif options.algorithm.secure_sums == "always":
        steps = getattr(options.algorithm.settings(), "steps", 1)
    else:
        return options.cycles
    return bisect_left(range(3 * steps + 2), steps, lo=options.cycles, key=lambda n: replace(options, cycles=n).steps)


def _check_cell(options: Options, config: AgentConfig, peers: list[list[int]]) -> None:
    """Check that the fleet is large enough for a secure sum, and that all of its devices know each other.

    Raises:
        UsageError: if a sum could not be opened; the message states the number of devices or the topology that it
            needs.
    """
    known = min(map(len, peers))
    if config.cell is not None and known < options.agents - 1 and options.topology != NEWSCAST:
        raise UsageError(
            f"--topology {options.topology}: an agent knows {known} of the {options.agents - 1} other agents, but the "
            "agents in a secure sum must all know each other: use --topology full"
        )
    if config.cell is not None and options.agents < config.cell.least:
        alternative = f", or --set privacy.cell.min={options.agents}" if options.agents > 1 else ""
        raise UsageError(
            f"--agents {options.agents}: a secure sum needs at least privacy.cell.min = {config.cell.least} devices: "
            f"use --agents {config.cell.least}{alternative}"
        )


def _mixing_for_all(options: Options, config: AgentConfig) -> dict[str, Any] | None:
    """Return the settings with which no device ignores another's contributions; None if the defaults suffice.

    A device stores 64 contributions by default. More fit on a workstation, up to the key's own limit and the memory
    that a device's model may take; beyond these, devices average in pairs.
    """
    own_keys = ("learner.mixing", "learner.contributors")
    if getattr(config.learner, "mixing", None) != "contributions" or any(key in options.settings for key in own_keys):
        return None
    size, others = build_kernel(config).size, options.agents - 1
    if others <= contributors(config, size):
        return None
    if others <= min(MAX_CONTRIBUTORS, max_contributors(config, size)):
        return {"learner.contributors": others}
    return {"learner.mixing": "pairwise"}


def _with_window_unit(options: Options) -> Options:
    """Return the options for a feed's stored windows, which are distributed as files instead of a feed.

    As on a device, the default privacy unit is then `window`, which covers a day, unless the learner has its own unit.
    """
    if ALGORITHMS[options.learner].unit != "record":
        return options
    return replace(options, settings={"privacy.unit": "window", **options.settings})


def _with_regression_defaults(options: Options, *, grouped: bool) -> Options:
    """Add a regression's defaults for the model, transform and partition, which the command line overrides.

    If the file contains many meters, each agent gets the records of one meter.
    """
    partition_name = "one-group" if options.data.startswith("meters:") else "by-group"
    defaults = {"data.transform": "none", **({"data.partition": partition_name} if grouped else {})}
    return replace(options, model=options.model or REGRESSION_MODEL, settings={**defaults, **options.settings})


def _target(data: DataSet) -> Target | None:
    """Return the data's target, with baseline predictions only if there is an official test split."""
    return replace(data.target, baselines={}) if data.target is not None and data.test is None else data.target


def _windows(options: Options, train: Records) -> tuple[int, int] | None:
    """Return the data's first and last window if the unit is a window and none are declared."""
    declared = "data.windows" in options.settings
    if declared or options.budget.unit != "window" or train.windows is None or not len(train):
        return None
    return int(train.windows.min()), int(train.windows.max())


def _gradient_bound(options: Options, config: AgentConfig, records: Records) -> float | None:
    """Measure the bound G for constd2p with fidelity `paper`, if it is needed and not declared."""
    learner = config.learner
    if not isinstance(learner, ConstD2pSettings) or learner.fidelity == "sound" or learner.gradient_bound is not None:
        return None
    if options.is_noiseless or not len(records):
        return None
    kernel = build_kernel(config)
    return longest_gradient(
        kernel,
        records.features,
        records.labels,
        agents=options.agents,
        steps=step_count(config),
        step_size=first_step(config, kernel.size).step_size,
        seed=options.seed,
    )


def _family(config: AgentConfig, public: Records | None) -> Family:
    """Return a learner's family after checking it. A learner that scores models uses these public records."""
    family = build_family(config, public)
    family.check()
    return family


def _agent_learner_keys(options: Options, index: int, peers: list[list[int]]) -> dict[str, Any]:
    """Return the learner keys that are specific to one agent.

    With one shared model, the first agent begins the walk. In rounds, the keys follow from the graph.
    """
    if ALGORITHMS[options.learner].has_initiator:
        return {"begins_walk": True} if index == 0 else {}
    keys: dict[str, Any] = {}
    if options.settings.get("learner.chebyshev") is True and "learner.spectral_gap" not in options.settings:
        keys["spectral_gap"] = spectral_gap(metropolis(peers))
    if getattr(options.learner_settings, "answers_per_round", None) == "all":
        keys["answers"] = _gradients_per_round(peers)
    return keys


def _gradients_per_round(peers: list[list[int]]) -> int:
    """Return the largest number of gradients that a device releases per round if it answers all neighbours."""
    return 1 + max(map(len, peers))


def _peers(options: Options) -> list[list[int]]:
    """Return, for each agent, the agents that it sends to. In rounds, every receiver answers."""
    if options.transport == "mixed":  # every agent must be able to reach the seed
        return [[0] if i else [] for i in range(options.agents)]
    peers = out_peers(options.topology, options.agents, options.seed)
    if not ALGORITHMS[options.learner].mutual:
        return peers
    return [
        [*row, *(j for j, peer_row in enumerate(peers) if i in peer_row and j not in row)]
        for i, row in enumerate(peers)
    ]
