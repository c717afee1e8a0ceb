"""Simulate the gradient perturbation walk, from a fleet to a report."""

import resource
import time
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError
from sottovoce.kernels.gossip_rules import SLOPES
from sottovoce.kernels.linear import targets
from sottovoce_papers.hegedus_2017.gradient_walk.visits import visit_epsilons

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.fleet_meter import Meter
from sottovoce_lab.experiments.report import build_point, build_report, charged_epsilon
from sottovoce_lab.experiments.seeds import Stream, derive_seed, generator
from sottovoce_lab.experiments.settings import Settings
from sottovoce_lab.experiments.statement import build_statement
from sottovoce_lab.simulator.vector import GradientWalk
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import Traffic
from sottovoce_lab.testbed.run_facts import SIMULATED


def run(fleet: Fleet, watcher: Watcher) -> dict[str, Any]:
    """Walk over a fleet until every device has spent its budget or all cycles are complete.

    Raises:
        PrivacyError: if no ε holds and the settings do not allow a run without ε.
        UsageError: if the batch size exceeds the number of records.
    """
    started = time.monotonic()
    settings, statement = fleet.settings, build_statement(fleet)
    walk = create_walks(fleet, [settings.epsilon])
    meter = Meter(fleet, generator(settings.seed, Stream.MEASURING))
    devices, cycles = walk.devices, min(settings.cycles, len(_schedule(settings, settings.epsilon)))
    model_index = np.zeros(1, dtype=np.int64)
    curve = []
    message_bytes = 8 * (walk.weights.size + 1)
    for visit in islice(walk.passes(), cycles):
        hops = visit * devices
        moment = Moment(
            visit, cycles, time.monotonic() - started, devices, meter.measure_sample(walk.weights, model_index),
            charged_epsilon(statement), hops, hops * message_bytes,
        )  # fmt: skip
        curve.append(build_point(moment))
        watcher.show_moment(moment)
    hops = cycles * devices
    return build_report(
        fleet,
        statement,
        wall=time.monotonic() - started,
        final=meter.measure_all(walk.weights, model_index),
        curve=curve,
        traffic=Traffic(hops, hops * message_bytes, hops * message_bytes),
        online=[True] * devices,
        releases=cycles,
        facts={
            "updates": hops,
            "rss_mib_max": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        },
        warnings=[] if settings.is_noiseless else [SIMULATED],
    )


def create_walks(fleet: Fleet, epsilons: list[float]) -> GradientWalk:
    """Return parallel walks over the same fleet, one for each total ε, each as it would be if it walked alone.

    Raises:
        UsageError: if the batch size exceeds the number of records.
    """
    settings = fleet.settings
    return GradientWalk(
        _batch_records(fleet, settings.learner.batch),
        SLOPES[fleet.model],
        np.array([_schedule(settings, epsilon) for epsilon in epsilons]).T,
        joint=settings.fidelity == "sound",
        seed=derive_seed(settings.seed, Stream.ENGINE),
        paired=True,
    )


def _schedule(settings: Settings, epsilon: float) -> tuple[float, ...]:
    """Return ε for each visit to a device."""
    return visit_epsilons(settings.learner.budget, settings.learner.visits, epsilon)


def _batch_records(fleet: Fleet, size: int) -> NDArray[np.float64]:
    """Return each device's records in a walk, y^(k)x with L1 length 1, float64[devices, size, k, d].

    Raises:
        UsageError: if there are fewer records than `size`.
    """
    if size > len(fleet.records):
        raise UsageError(
            f"learner.batch = {size}: there are only {len(fleet.records)} records; use a smaller batch or more agents"
        )
    signs = targets(fleet.records.labels, fleet.classes)
    signed_features = signs[:, :, np.newaxis] * fleet.normalise(fleet.records.features)[:, np.newaxis]
    devices = len(signed_features) // size
    return signed_features[: devices * size].reshape(devices, size, *signed_features.shape[1:])
