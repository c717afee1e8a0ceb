"""Simulate push-sum SGD on the vector engine, from a plan to a report."""

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.push_sum.parts import INITIAL_SEED, build_schedule, max_step_length
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.algorithms.push_sum.step_count import max_steps
from sottovoce.data import prepare_records
from sottovoce.errors import UsageError
from sottovoce.kernels import Kernel
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms, kernel_clips_and_sums
from sottovoce.privacy.vault import Ledger, SeededNoise

from sottovoce_lab.experiments.seeds import Stream, derive_seed
from sottovoce_lab.published.simulated_sums import simulate_sums
from sottovoce_lab.simulator.vector.pairwise import PairwiseFleet
from sottovoce_lab.simulator.vector.push_sum import PushSumFleet
from sottovoce_lab.testbed.measure import Meter
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic
from sottovoce_lab.testbed.run_facts import SIMULATED, curve_point, describe_run, plan_baselines, shared_record_warnings

_BYTES_PER_NUMBER = 8


def run(plan: Plan, watcher: Watcher) -> dict[str, Any]:
    """Run a fleet for all its cycles.

    Args:
        plan: the plan for the run, with the devices' records and peers.
        watcher: receives progress updates.

    Returns:
        The report.

    Raises:
        UsageError: if the engine does not support the plan; the message names an engine that does.
    """
    started, options = time.monotonic(), plan.options
    vaults = _Vaults(plan)
    kernel = vaults.kernel
    fleet, numbers = _fleet(plan, vaults)
    meter = Meter(kernel, plan.test, options.seed)
    curve = []

    def traffic() -> Traffic:
        sent = fleet.sent * numbers * _BYTES_PER_NUMBER
        return Traffic(fleet.sent, sent, sent)

    for cycle in range(1, options.cycles + 1):
        fleet.step()
        moment = Moment(
            cycle, options.cycles, time.monotonic() - started, options.agents, meter.measure_sample(list(fleet.models)),
            vaults.spent, traffic().messages, traffic().wire_bytes,
        )  # fmt: skip
        curve.append(curve_point(moment))
        watcher.show_moment(moment)
    statement = vaults.statement.without_proof(plan.unproved)
    return Report(
        run={**describe_run(plan, time.monotonic() - started), "transport": "vector"},
        statement=statement,
        final=meter.measure_all(list(fleet.models)),
        curve=curve,
        traffic=traffic(),
        resources=Resources(),
        agents=[
            AgentReport(f"agent-{i:05d}", True, options.cycles, len(plan.peers[i]), vaults.spent, fleet.steps)
            for i in range(options.agents)
        ],
        faults=options.fault_specs,
        ledgers_agree=True,
        baselines=partial(plan_baselines, plan),
        warnings=[*shared_record_warnings(plan), *([] if statement.epsilon is None else [SIMULATED])],
    ).document()


def _fleet(plan: Plan, vaults: "_Vaults") -> tuple[PushSumFleet | PairwiseFleet, int]:
    """Return the plan's fleet, and the number of values in each of its messages, including the answer."""
    size, initial = vaults.kernel.size, vaults.kernel.initial(INITIAL_SEED)
    loss, seed = plan.options.faults.loss, derive_seed(plan.options.seed, Stream.ENGINE)
    schedule = build_schedule(plan.config, size)
    if settings_of(plan.config, PushSumSettings).mixing == "pairwise":
        learner = Pairwise(
            schedule, initial, reach=max_step_length(plan.config, schedule), max_steps=max_steps(plan.config)
        )
        return PairwiseFleet(learner, plan.peers, vaults.release, loss=loss, seed=seed), 2 * (size + 1)
    return PushSumFleet(schedule, initial, plan.peers, vaults.release, loss=loss, seed=seed), size + 1


class _Vaults:
    """A whole fleet's vaults, with a single mechanism and ledger because all devices are charged equally."""

    def __init__(self, plan: Plan) -> None:
        terms, budget = plan.family.terms, plan.options.budget
        kernel = plan.family.kernel
        device_records = [prepare_records(raw, plan.transform, plan.bounds) for raw in plan.raw]
        if plan.config.learner.fidelity == "paper":
            raise _unsupported("fidelity = paper")
        if settings_of(plan.config, PushSumSettings).mixing == "contributions":
            raise _unsupported("learner.mixing = contributions", ", or learner.mixing = pairwise")
        if not isinstance(terms, GradientTerms) or kernel is None:
            raise _unsupported("a moving clipping threshold, which learner.clipping = constant avoids")
        if budget.unit != "record" or kernel_clips_and_sums(kernel, budget, device_records[0]):
            raise _unsupported("a unit other than record, or a model whose graph clips and sums")
        if plan.options.faults.has_faults_besides("loss"):
            raise _unsupported("faults other than loss")
        seeds = np.random.SeedSequence(derive_seed(plan.options.seed, Stream.NOISE)).generate_state(2, np.uint64)
        self.kernel: Kernel = kernel
        self._noise, self._batches = SeededNoise(int(seeds[0])), np.random.default_rng(int(seeds[1]))
        self._rate = terms.batch / terms.of if terms.sampling == "poisson" else None
        self._mechanism, self._program = terms.program(kernel, budget, kernel.size, is_presummed=False)
        self._ledger = Ledger.in_memory("fleet", budget)
        self._event = self._mechanism.event if self._program.event is None else self._program.event
        self.statement = build(
            records=device_records[0], kernel=kernel, terms=terms, ledger=self._ledger, noise=SeededNoise(0)
        ).statement
        max_records = max(map(len, device_records))
        self._features = np.zeros((len(device_records), max_records, device_records[0].features.shape[1]))
        self._labels = np.zeros((len(device_records), max_records), dtype=np.int64)
        self._present = np.zeros((len(device_records), max_records), dtype=np.bool_)
        for device, records in enumerate(device_records):
            rows = slice(len(records))
            self._features[device, rows], self._labels[device, rows] = records.features, records.labels
            self._present[device, rows] = True

    @property
    def spent(self) -> float | None:
        """The total ε that each device has spent so far."""
        return self._ledger.spending().promised_epsilon

    def release(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
        """Charge one release per device, and return the releases at the devices' points. See ReleaseFunction."""
        self._ledger.charge(self._ledger.spending().charges.to_bytes(32, "big"), self._event)
        included = self._present
        if self._rate is not None:
            included = included & (self._batches.random(included.shape) < self._rate)

        def gradients(part: slice) -> NDArray[np.float64]:
            return self.kernel.gradients(points[part], self._features[part], self._labels[part])

        return simulate_sums(self._mechanism, gradients, included, self._noise), self._mechanism.step


def _unsupported(feature: str, alternative: str = "") -> UsageError:
    return UsageError(f"engine = vector: this engine does not support {feature}; use engine = events{alternative}")
