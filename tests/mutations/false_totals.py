"""Defects that leave the printed ε false, in the places where one part relies on another's bound.

Each is put into the shipped code by monkeypatching, as in `mutants`. A defect changes either what is released or what
is charged for it, and never both.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels import profile
from sottovoce.privacy.accounting import accountant, sampled, tally
from sottovoce.privacy.accounting.events import Event, with_units
from sottovoce.privacy.accounting.pairs import RemovedPair
from sottovoce.privacy.accounting.relations import Promise, convert_charge
from sottovoce.privacy.accounting.sampled import SampledGaussian
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import Answer, Query, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.ledger.charge_totals import ChargeTotals
from sottovoce.privacy.mechanisms import cell_sum, clipped_sum, sampled_sum
from sottovoce.privacy.mechanisms.bounded_point import BoundedPoint
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism, calibrate_cell
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian
from sottovoce.privacy.mechanisms.pure_sum import PureSum
from sottovoce.privacy.mechanisms.samplers.block_sampler import BlockSampler
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.privacy.mechanisms.sampling import Poisson
from sottovoce.privacy.terms import cell_gradients, gradients, means
from sottovoce.privacy.terms.base import sum_mechanism
from sottovoce.privacy.terms.gradients import RecordSum
from sottovoce.privacy.vault import Ledger, Vault
from sottovoce.privacy.vault.programs.centred import CentredSum
from sottovoce.privacy.vault.programs.gradient import GradientSum
from sottovoce.privacy.vault.programs.program import Plan

from tests.mutations.mutants import answered, drawn_anew

Values = NDArray[np.int64]

_LONG = 300
"""Number of values above which a release is long."""


def last_number_exact(patch: pytest.MonkeyPatch) -> None:
    """The last number of a long release gets no noise, as after an array is filled in blocks."""
    for kind in (DiscreteGaussian, BoundedPoint, PureSum, CellMechanism):
        apply = kind.apply

        def applied(self: Any, raw: Any, *rest: Any, apply: Callable[..., Values] = apply) -> Values:
            if self.size <= _LONG:
                return apply(self, raw, *rest)
            rows = raw if isinstance(raw, np.ndarray) else list(raw)
            given = [rows if isinstance(rows, np.ndarray) else iter(rows) for _ in range(2)]
            value = apply(self, given[0], *rest)
            with pytest.MonkeyPatch.context() as silence:
                silence.setattr(BlockSampler, "draw", lambda self, count: np.zeros(count, dtype=np.int64))
                last = -2 if isinstance(self, PureSum) else -1  # a pure sum ends with a public number
                value[last] = apply(self, given[1], *rest)[last]
            return value

        patch.setattr(kind, "apply", applied)


def last_draw_zero(patch: pytest.MonkeyPatch) -> None:
    """The last draw of a long request is 0."""
    draw = BlockSampler.draw

    def drawn(self: BlockSampler, count: int) -> Values:
        value = draw(self, count)
        value[count - (count > _LONG) :] = 0
        return value

    patch.setattr(BlockSampler, "draw", drawn)


def first_draw_repeated(patch: pytest.MonkeyPatch) -> None:
    """All values of a release get the same draw, as when a scalar is broadcast."""
    draw = DiscreteGaussianSampler.draw
    patch.setattr(DiscreteGaussianSampler, "draw", lambda self, count: np.repeat(draw(self, 1), count))


def harmonics_clipped_twice_as_far(patch: pytest.MonkeyPatch) -> None:
    """A device's level and shape are clipped at twice their bounds; the device adds all noise itself."""
    _double_profile_clips(patch)
    patch.setattr(means, "sum_mechanism", _with_double_clip(sum_mechanism))


def harmonics_of_a_cell_clipped_twice_as_far(patch: pytest.MonkeyPatch) -> None:
    """A device's level and shape are clipped at twice their bounds; a cell shares the noise."""
    _double_profile_clips(patch)
    patch.setattr(means, "calibrate_cell", _with_double_clip(calibrate_cell))


def cell_gradients_clipped_twice_as_far(patch: pytest.MonkeyPatch) -> None:
    """Gradients that a cell sums are clipped at twice the norm that is charged."""
    patch.setattr(cell_gradients, "calibrate_cell", _with_double_clip(calibrate_cell))


def clip_of_the_largest_value(patch: pytest.MonkeyPatch) -> None:
    """A row is scaled until its largest value, not its length, is within the clip norm."""

    def clipped(rows: Any, step: float, clip: int | None) -> Any:
        units = np.trunc(np.nan_to_num(np.ascontiguousarray(rows) / step, posinf=0, neginf=0))
        largest = np.abs(units).max(axis=1, keepdims=True, initial=1.0)
        bound = np.sqrt(np.inf if clip is None else clip)
        return np.trunc(units * np.minimum(1.0, bound / largest))

    patch.setattr(clipped_sum, "clip_to_grid", clipped)


def unit_rows_clipped_apart(patch: pytest.MonkeyPatch) -> None:
    """Each record is clipped, where the whole window or device should be."""
    compute = GradientSum.compute
    patch.setattr(
        GradientSum,
        "compute",
        lambda self, query, records: compute(
            self if self.clip is not None else replace(self, unit="record"), query, records
        ),
    )


def replacement_moves_a_sum_once(patch: pytest.MonkeyPatch) -> None:
    """Noise for adding a record, while records are replaced."""
    for module in (clipped_sum, cell_sum):
        patch.setattr(module, "DISTANCES", {"add-remove": 1, "replace-one": 1})


def charge_after_the_release(patch: pytest.MonkeyPatch) -> None:
    """The charge becomes durable with the release, not before the noise is drawn."""
    charge, store, pending = Ledger.charge, Ledger.store, dict[bytes, Event]()

    def charged(self: Ledger, query: bytes, event: Event) -> bool:
        if self.payable_units(event) != event.units:
            return False
        pending[query] = event
        return True

    def stored(self: Ledger, query: bytes, release: Any) -> None:
        charge(self, query, pending.pop(query))
        store(self, query, release)

    patch.setattr(Ledger, "charge", charged)
    patch.setattr(Ledger, "store", stored)


def first_of_the_units_charged(patch: pytest.MonkeyPatch) -> None:
    """Of the windows or records of a release, only the first pays."""
    add = Tally.add

    def added(self: Tally, event: Any, changes: int = 1) -> None:
        first = event.units.spans[0][0]
        add(self, event if event.units == EVERY else with_units(event, Units(((first, first),))), changes)

    patch.setattr(Tally, "add", added)


def release_forgotten_by_its_query(patch: pytest.MonkeyPatch) -> None:
    """A stored release is not found, so that a repeated query draws new noise, already paid for."""
    store = Ledger.store

    def stored(self: Ledger, query: bytes, release: Any) -> None:
        if _stored_release(self, query) is None:
            store(self, query, release)

    patch.setattr(Ledger, "store", stored)
    patch.setattr(Ledger, "stored_release", lambda self, query: None)


_stored_release = Ledger.stored_release


def each_task_pays_alone(patch: pytest.MonkeyPatch) -> None:
    """A new task begins with the device's whole budget."""
    enter = ChargeTotals._enter_epoch

    def entered(self: ChargeTotals, epoch: int) -> None:
        enter(self, epoch)
        self._all = Tally(self._budget.delta)

    patch.setattr(ChargeTotals, "_enter_epoch", entered)


def records_keep_their_numbers_across_tasks(patch: pytest.MonkeyPatch) -> None:
    """A new task numbers its records afresh, and the ledger takes the numbers of earlier tasks for the same records."""
    patch.setattr(Tally, "renumber", lambda self: self)


def device_task_is_one_change_of_a_window(patch: pytest.MonkeyPatch) -> None:
    """A task that bounds the whole device is charged to a ledger of windows as if a window came or went alone."""
    _convert(patch, lambda release, ledger: release.unit == "device" and ledger.unit == "window")


def device_task_is_one_change_of_a_record(patch: pytest.MonkeyPatch) -> None:
    """A task that bounds the whole device is charged to a ledger of records as one change."""
    _convert(patch, lambda release, ledger: release.unit == "device" and ledger.unit == "record")


def replacement_is_one_addition(patch: pytest.MonkeyPatch) -> None:
    """A task under add-remove is charged to a ledger under replace-one as one change."""
    _convert(patch, lambda release, ledger: release.unit == ledger.unit)


def two_changes_double_the_square(patch: pytest.MonkeyPatch) -> None:
    """Two changes cost twice μ², where μ is twice as large."""
    part = tally.cost_part

    def costed(event: Event, changes: int = 1) -> Any:
        mu_squared, *rest = part(event, changes)
        return mu_squared / changes, *rest

    patch.setattr(tally, "cost_part", costed)


def sampled_replacement_moves_a_sum_once(patch: pytest.MonkeyPatch) -> None:
    """The bound without sampling takes a replaced record for an added one."""
    _forget_costs(patch)
    patch.setattr(SampledGaussian, "distance", property(lambda self: 1))


def sampled_replacement_accounted_as_removal(patch: pytest.MonkeyPatch) -> None:
    """Sampled sums under replace-one compose by the pair for a record's removal."""
    _forget_costs(patch)
    patch.setattr("sottovoce.privacy.accounting.pairs.ReplacedPair", RemovedPair)


def one_direction_accounted(patch: pytest.MonkeyPatch) -> None:
    """Sampled sums compose in one direction only: a record's absence against its presence."""
    _forget_costs(patch)
    pairs = SampledGaussian.pairs.fget  # type: ignore[attr-defined]
    patch.setattr(SampledGaussian, "pairs", property(lambda self: pairs(self) and pairs(self)[1:] * 2))


def rate_of_half_the_batch_charged(patch: pytest.MonkeyPatch) -> None:
    """A batch is twice as large as the charge says."""
    patch.setattr(gradients, "Poisson", lambda batch, of: Poisson(min(2 * batch, of), of))


def batch_of_the_first_records(patch: pytest.MonkeyPatch) -> None:
    """A batch has the charged size, and always the same records."""
    patch.setattr(Poisson, "draw", lambda self, count, noise: np.arange(count * self.batch // self.of, dtype=np.int64))


def sampled_releases_counted_once(patch: pytest.MonkeyPatch) -> None:
    """Equal sampled charges are composed as if there were one of them."""
    _forget_costs(patch)
    epsilon = accountant.composed_epsilon
    patch.setattr(accountant, "composed_epsilon", lambda counts, delta: epsilon(dict.fromkeys(counts, 1), delta))


def colluders_counted_as_honest(patch: pytest.MonkeyPatch) -> None:
    """A cell's charge counts the noise of members that may collude."""
    patch.setattr(Cell, "honest_shares", lambda self, size: self.opening_threshold(size))


def _forget_costs(patch: pytest.MonkeyPatch) -> None:
    """Keep the costs that sound code has computed away from a defect, and the defect's away from sound code."""
    for module, name in (
        (sampled, "_epsilon"),
        (tally, "_unit_epsilon"),
        (tally, "_is_affordable"),
        (sampled_sum, "min_multiplier"),
    ):
        patch.setattr(module, name, lru_cache(getattr(module, name).__wrapped__))


def _double_profile_clips(patch: pytest.MonkeyPatch) -> None:
    coefficients = profile.Profile.coefficients

    def doubled(self: profile.Profile, vector: Any) -> Any:
        if self.harmonics is None or self.shape_clip is None:
            return coefficients(self, vector)
        prior = np.array(self.prior) if self.prior else np.zeros(self.width)
        half = replace(self, prior=tuple(prior / 2))
        return 2 * coefficients(half, np.asarray(vector) / 2)  # linear, except that its clips are now twice as large

    patch.setattr(profile.Profile, "coefficients", doubled)


def _with_double_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    def calibrated(*positional: Any, **named: Any) -> Any:
        mechanism = original(*positional, **named)
        return replace(mechanism, clip_squared=4 * mechanism.clip_squared)

    return calibrated


def _convert(patch: pytest.MonkeyPatch, applies: Callable[[Promise, Promise], bool]) -> None:
    """Charge a conversion to which this applies as one change."""

    def converted(event: Event, release: Promise, ledger: Promise) -> tuple[Event, int]:
        charged, changes = convert_charge(event, release, ledger)
        return charged, 1 if applies(release, ledger) else changes

    patch.setattr("sottovoce.privacy.ledger.charge_totals.convert_charge", converted)


def record_sum_bounded_without_its_bias(patch: pytest.MonkeyPatch) -> None:
    """The sum of records is charged for records of length 1, and their bias is forgotten."""
    mechanism = RecordSum.mechanism

    def bounded(self: RecordSum, budget: Any) -> Any:
        fitting = mechanism(replace(self, bias=1e-9), budget)
        assert isinstance(fitting, DiscreteGaussian)
        return replace(fitting, clip_squared=int(fitting.clip_squared * (1 + self.bias**2)))

    patch.setattr(RecordSum, "mechanism", bounded)


def record_sum_almost_free(patch: pytest.MonkeyPatch) -> None:
    """The sum of records is charged as if its noise were a thousand times as large."""
    _plan_record_sums(patch, lambda plan: replace(plan, event=replace(plan.event, sigma=1000 * plan.event.sigma)))


def record_sum_exact(patch: pytest.MonkeyPatch) -> None:
    """The sum of records is charged and gets no noise."""

    def exact(plan: Any) -> Any:
        noisy = plan.mechanism
        return replace(plan, mechanism=clipped_sum.Exact(noisy.size, noisy.exponent, noisy.clip_squared))

    _plan_record_sums(patch, exact)


def record_sum_noise_halved(patch: pytest.MonkeyPatch) -> None:
    """The sum of records gets half of the noise that it is charged for."""

    def halved(plan: Any) -> Any:
        noisy = plan.mechanism
        return replace(plan, mechanism=replace(noisy, sigma=noisy.sigma // 2))

    _plan_record_sums(patch, halved)


def record_sum_redrawn(patch: pytest.MonkeyPatch) -> None:
    """The sum of records is released with new noise whenever it is asked for, and charged once."""

    def again(vault: Vault, query: Query, answer: Answer) -> Answer:
        return answer if query.kind != "mean" or isinstance(answer, Refused) else drawn_anew(vault, query)

    answered(patch, again)


def record_count_exact(patch: pytest.MonkeyPatch) -> None:
    """The number of records leaks: the last number of their sum gets no noise."""
    apply = DiscreteGaussian.apply

    def applied(self: Any, raw: Any, *rest: Any) -> Values:
        rows = list(raw)
        value = apply(self, iter(rows), *rest)
        if isinstance(self, _CountedSum):
            value[-1] = clipped_sum.sum_clipped_rows(self, iter(rows))[-1]
        return value

    patch.setattr(DiscreteGaussian, "apply", applied)
    _plan_record_sums(patch, lambda plan: replace(plan, mechanism=_CountedSum(**asdict(plan.mechanism))))


def _plan_record_sums(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    plan = CentredSum.plan

    def planned(self: CentredSum, query: Any) -> Any:
        planned = plan(self, query)
        return change(planned) if query.kind == "mean" and isinstance(planned, Plan) else planned

    patch.setattr(CentredSum, "plan", planned)


class _CountedSum(DiscreteGaussian):
    """The mechanism of a sum whose last number leaks."""
