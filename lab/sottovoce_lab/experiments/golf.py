"""Simulate gossip learning on perturbed records, from a fleet to a report."""

import resource
import time
from typing import Any

import numpy as np
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, rounded_share
from sottovoce.algorithms.steps.public.descent import UNIT, round_and_clip
from sottovoce.kernels.gossip_rules import UPDATE_RULES
from sottovoce.net.wire.packed import pack
from sottovoce_papers.hegedus_2017.golf.parts import SHARE_BITS
from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.fleet_meter import Meter, Spread
from sottovoce_lab.experiments.models import CurrentModels, FittedModels, Models, SumModels
from sottovoce_lab.experiments.report import build_point, build_report, charged_epsilon
from sottovoce_lab.experiments.seeds import Stream, derive_seed
from sottovoce_lab.experiments.statement import build_statement
from sottovoce_lab.simulator.vector import Engine, MixedSums, RecordStores, Tracer, TravellingModels
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import Traffic
from sottovoce_lab.testbed.run_facts import SIMULATED

Document = dict[str, Any]


def run(fleet: Fleet, watcher: Watcher, traced: bool = False) -> tuple[Document, Document | None]:
    """Run a fleet for all its cycles.

    Args:
        fleet: the devices and their records.
        watcher: receives progress updates.
        traced: whether to record every message and state.

    Returns:
        The report, and the trace if one was requested.

    Raises:
        PrivacyError: if no ε holds and the settings do not allow a run without ε.
        UsageError: if there are too many devices for a model that needs all records.
    """
    started = time.monotonic()
    settings, statement = fleet.settings, build_statement(fleet)
    state, models, record_bytes = _build_state(fleet)
    tracer = Tracer(state.describe_states) if traced else None
    engine = Engine(
        state,
        topology=settings.topology,
        network=settings.faults.network,
        churn=settings.faults.sessions,
        seed=derive_seed(settings.seed, Stream.ENGINE),
        tracer=tracer,
    )
    generator = np.random.default_rng(derive_seed(settings.seed, Stream.MEASURING))
    meter = Meter(fleet, generator)
    curve: list[Document] = []
    step_seconds = 0.0

    def measure(final: bool = False) -> Spread:
        online = np.flatnonzero(engine.online)
        devices = generator.permutation(online if online.size else len(engine.online))[: settings.evaluate.nodes]
        measured_models = models.for_devices(devices)
        return meter.measure_all(*measured_models) if final else meter.measure_sample(*measured_models)

    def traffic() -> Traffic:
        payload = engine.counts.sent * state.message_bytes + round(state.transferred_records * record_bytes)
        return Traffic(engine.counts.sent, payload, payload)

    for cycle in range(1, settings.cycles + 1):
        step_start = time.monotonic()
        engine.step()
        step_seconds += time.monotonic() - step_start
        if cycle % settings.evaluate.every == 0 or cycle == settings.cycles:
            moment = Moment(
                cycle, settings.cycles, time.monotonic() - started, int(np.count_nonzero(engine.online)), measure(),
                charged_epsilon(statement), traffic().messages, traffic().wire_bytes,
            )  # fmt: skip
            curve.append(build_point(moment))
            watcher.show_moment(moment)
    final = measure(final=True)
    document = build_report(
        fleet,
        statement,
        wall=time.monotonic() - started,
        final=final,
        curve=curve,
        traffic=traffic(),
        online=engine.online.tolist(),
        releases=1,
        facts={
            "updates": state.updates,
            "updates_per_s": round(state.updates / step_seconds, 1),
            "messages_dropped": engine.counts.dropped,
            "messages_missed": engine.counts.missed,
            "state_sha256": state.digest(),
            "rss_mib_max": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        },
        warnings=[] if settings.is_noiseless else [SIMULATED],
    )
    return document, None if tracer is None else tracer.document()


def _build_state(fleet: Fleet) -> tuple[TravellingModels | RecordStores | MixedSums, Models, float]:
    """Return the engine state, the devices' models, and the size in bytes of one transferred record."""
    if fleet.model != "ridge":
        travelling = TravellingModels(fleet.perturbed_records(), UPDATE_RULES[fleet.model])
        return travelling, CurrentModels(travelling), 0.0
    if fleet.settings.mixes_sums:
        moments, values = PackedMoments(fleet.scheme, each=1), fleet.released_values()
        sums = MixedSums(len(fleet.records), _share_bytes(moments, values[:1]))
        return sums, SumModels(sums, moments, values), 0.0
    stores, values = RecordStores(len(fleet.records)), fleet.released_values()
    return stores, FittedModels(stores, fleet.scheme, values), _varint_bytes(values)


def _share_bytes(moments: PackedMoments, values: "np.ndarray[Any, np.dtype[np.int64]]") -> int:
    """Return the size in bytes of a share of a device's sums when packed as on the wire."""
    row = round_and_clip(moments.pack(moments.scheme.moments(values)) * UNIT)
    numerator, _ = rounded_share(row, WEIGHT_ONE, 2, SHARE_BITS)
    return len(pack(numerator).data)


def _varint_bytes(values: "np.ndarray[Any, np.dtype[np.int64]]") -> float:
    """Return the mean size in bytes of a record encoded as protobuf zigzag varints, with 7 bits per byte."""
    total = 0
    for row in np.array_split(values, max(1, values.size // 2**20)):
        zigzag = (row << 1 ^ row >> 63).astype(np.uint64)
        total += row.size + sum(int(np.count_nonzero(zigzag >> np.uint64(7 * k))) for k in range(1, 10))
    return total / len(values)
