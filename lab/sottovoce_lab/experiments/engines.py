"""Execute a run on the engine that its description specifies."""

from typing import Any

import numpy as np
from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.data import DataSet, Records, prepare_records
from sottovoce.errors import ConfigError, UsageError
from sottovoce_papers.hegedus_2017.golf.parts import build_scheme
from sottovoce_papers.hegedus_2017.golf.settings import GolfSettings

from sottovoce_lab.experiments import push_sum
from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.run import run_fleet
from sottovoce_lab.experiments.settings import Settings, build_settings
from sottovoce_lab.simulator.faults import Sessions
from sottovoce_lab.simulator.vector import PEERS
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import RunSpec


def run(spec: RunSpec, watcher: Watcher, data: DataSet | None = None) -> dict[str, Any]:
    """Execute a run on the engine that it specifies.

    Args:
        spec: the description of the run.
        watcher: receives progress updates.
        data: the data set in `spec.data`, if it is already loaded.

    Returns:
        The report, `sottovoce.report/1`.

    Raises:
        SottovoceError: if the run is impossible; the message suggests a remedy.
    """
    options = spec.options()
    planned = plan(options, data)
    match spec.engine:
        case "vector":
            document = _run_on_arrays(planned, watcher)
        case "events" | "memory":
            document = memory.run(planned, watcher).document()
        case _:
            from sottovoce_lab.testbed import processes

            document = processes.run(planned, watcher).document()
    if (baselines := document["baselines"]) is not None:
        document["run"]["majority_class"] = baselines["majority_class"]
    document["run"]["engine"] = spec.engine
    document["run"]["spec"] = _request_document(spec)
    return document


def _request_document(spec: RunSpec) -> dict[str, Any]:
    """Return the run description as JSON-ready values, with "inf" for an infinite ε, which JSON cannot represent."""
    fields = {key: value for key in spec.__struct_fields__ if (value := getattr(spec, key)) not in (None, (), {})}
    return {**fields, **({"epsilon": "inf"} if spec.epsilon == float("inf") else {})}


def _run_on_arrays(planned: Plan, watcher: Watcher) -> dict[str, Any]:
    learner = planned.config.learner
    if isinstance(learner, PushSumSettings):
        return push_sum.run(planned, watcher)
    if isinstance(learner, GolfSettings):
        document, _ = run_fleet(_one_record_fleet(planned), watcher)
        return document
    raise UsageError(
        f"engine = vector: this engine supports the push-sum learners and golf, not {learner.name}; use engine = events"
    )


def _one_record_fleet(planned: Plan) -> Fleet:
    """Convert the plan's fleet to the form that the vector engine accepts."""
    options = planned.options
    if any(len(raw) != 1 for raw in planned.raw):
        raise UsageError(
            f"engine = vector: devices of {options.learner} must have exactly one record each; use "
            "partition = one-record, or engine = events"
        )
    if options.topology not in PEERS:
        raise UsageError(
            f"engine = vector: {options.learner} supports the topologies {', '.join(PEERS)}, not {options.topology}; "
            "choose one of these, or use engine = events"
        )
    device_records = [prepare_records(raw, planned.transform, planned.bounds) for raw in planned.raw]
    return Fleet(
        settings=_golf_settings(planned),
        name=planned.name,
        records=Records(
            np.concatenate([records.features for records in device_records]),
            np.concatenate([records.labels for records in device_records]),
        ),
        test=planned.test,
        classes=planned.classes,
        model=planned.model,
        scheme=build_scheme(planned.config),
        transform=planned.transform,
        training_bounds=options.uses_training_ranges,
        unproved=planned.unproved,
    )


def _golf_settings(planned: Plan) -> Settings:
    options, learner = planned.options, settings_of(planned.config, GolfSettings)
    faults = options.faults
    if faults.has_faults_besides("loss", "delay", "delay_spread", "churn") or isinstance(faults.churn, tuple):
        raise UsageError(
            "engine = vector: only the faults loss, delay and churn=lognormal(…) are supported; use engine = events"
        )
    delay = [round((faults.delay + side * faults.delay_spread) / options.period) for side in (-1, 1)]
    churn = f"lognormal({faults.churn.mu:g},{faults.churn.sigma:g})" if isinstance(faults.churn, Sessions) else "none"
    values: dict[str, Any] = {
        "agents": options.agents,
        "cycles": options.cycles,
        "seed": options.seed,
        "epsilon": float("inf") if options.epsilon is None else options.epsilon,
        "fidelity": options.fidelity,
        "topology": options.topology,
        "data.source": options.data,
        "learner.name": options.learner,
        "learner.model": planned.model,
        "learner.mixing": learner.mixing,
        "learner.perturbation": learner.perturbation,
        "faults.drop": faults.loss,
        "faults.delay": delay,
        "faults.churn": churn,
        "privacy.allow_unproved": options.allows_unproved,
    }
    try:
        return build_settings(values, "engine = vector")
    except ConfigError as error:
        raise UsageError(f"{error}; or use engine = events") from error
