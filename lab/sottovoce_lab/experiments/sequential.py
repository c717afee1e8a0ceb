"""Simulate sequential descent over perturbed records, the baseline in Figure 5, from a fleet to a report."""

import resource
import time
from typing import Any

import numpy as np
from sottovoce.kernels.gossip_rules import SLOPES

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.fleet_meter import Meter
from sottovoce_lab.experiments.report import build_point, build_report, charged_epsilon
from sottovoce_lab.experiments.seeds import Stream, derive_seed, generator
from sottovoce_lab.experiments.statement import build_statement
from sottovoce_lab.simulator.vector import SequentialDescent
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import Traffic
from sottovoce_lab.testbed.run_facts import SIMULATED


def run(fleet: Fleet, watcher: Watcher) -> dict[str, Any]:
    """Pass one model over all published records, `cycles` times.

    Raises:
        PrivacyError: if no ε holds and the settings do not allow a run without ε.
    """
    started = time.monotonic()
    settings, statement = fleet.settings, build_statement(fleet)
    walk = create_descent(fleet)
    meter = Meter(fleet, generator(settings.seed, Stream.MEASURING))
    model_index, hops = np.zeros(1, dtype=np.int64), 0
    message_bytes = walk.weights.size * 4 + 8
    curve = []
    for number in walk.passes(settings.cycles):
        if number % settings.evaluate.every == 0 or number == settings.cycles:
            hops = number * walk.length
            moment = Moment(
                number, settings.cycles, time.monotonic() - started, len(fleet.records),
                meter.measure_sample(walk.weights, model_index), charged_epsilon(statement), hops, hops * message_bytes,
            )  # fmt: skip
            curve.append(build_point(moment))
            watcher.show_moment(moment)
    return build_report(
        fleet,
        statement,
        wall=time.monotonic() - started,
        final=meter.measure_all(walk.weights, model_index),
        curve=curve,
        traffic=Traffic(hops, hops * message_bytes, hops * message_bytes),
        online=[True] * len(fleet.records),
        releases=1,
        facts={
            "updates": hops,
            "rss_mib_max": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        },
        warnings=[] if settings.is_noiseless else [SIMULATED],
    )


def create_descent(fleet: Fleet) -> SequentialDescent:
    """Return a sequential descent over a fleet's perturbed records."""
    records = fleet.perturbed_records()[np.newaxis].astype(np.float64)
    seed = derive_seed(fleet.settings.seed, Stream.ENGINE)
    return SequentialDescent(records, SLOPES[fleet.model], seed, fleet.settings.learner.batch)
