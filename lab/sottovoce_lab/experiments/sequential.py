"""One simulation of sequential descent over perturbed records, the comparator of Figure 5, from a fleet to a report."""

import resource
import time
from typing import Any

import numpy as np
from sottovoce.kernels.gossip_rules import RULES

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.measuring import Meter
from sottovoce_lab.experiments.report import charged, point, report
from sottovoce_lab.experiments.seeds import Stream, child, generator
from sottovoce_lab.experiments.statement import statement_of
from sottovoce_lab.simulate.vector import SequentialDescent
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import Traffic
from sottovoce_lab.testbed.run_facts import SIMULATED


def run(fleet: Fleet, watcher: Watcher) -> dict[str, Any]:
    """Let one model pass over all published records, `cycles` times.

    Raises:
        PrivacyError: no ε holds, and the settings do not allow that.
    """
    began = time.monotonic()
    settings, statement = fleet.settings, statement_of(fleet)
    records = fleet.signed()[np.newaxis].astype(np.float64)
    descent = SequentialDescent(records, RULES[fleet.model], child(settings.seed, Stream.ENGINE))
    meter = Meter(fleet, generator(settings.seed, Stream.MEASURING))
    first, devices = np.zeros(1, dtype=np.int64), records.shape[1]
    message = records[0, 0].size * 4 + 8
    curve = []
    for number in descent.passes(settings.cycles):
        if number % settings.evaluate.every == 0 or number == settings.cycles:
            hops = number * devices
            now = Moment(
                number, settings.cycles, time.monotonic() - began, devices, meter.quick(descent.weights, first),
                charged(statement), hops, hops * message,
            )  # fmt: skip
            curve.append(point(now))
            watcher.moment(now)
    hops = settings.cycles * devices
    return report(
        fleet,
        statement,
        wall=time.monotonic() - began,
        final=meter.final(descent.weights, first),
        curve=curve,
        traffic=Traffic(hops, hops * message, hops * message),
        online=[True] * devices,
        releases=1,
        facts={
            "updates": hops,
            "rss_mib_max": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        },
        warnings=[] if settings.noiseless else [SIMULATED],
    )
