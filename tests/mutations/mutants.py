"""Defects that privacy software has had elsewhere, each put into the shipped code by monkeypatching.

A mutant changes what runs on the device; the auditor's own arithmetic is untouched.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.learning.learners import Send
from sottovoce.net.wire import SignedHead
from sottovoce.privacy.accounting.events import with_units
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import Answer, Query, Refused, Release
from sottovoce.privacy.mechanisms import clipped_sum, pure_sum, record_mechanism
from sottovoce.privacy.mechanisms.clipping import clip_to_grid
from sottovoce.privacy.mechanisms.samplers import discrete_gaussian, discrete_laplace
from sottovoce.privacy.mechanisms.sampling import Poisson
from sottovoce.privacy.perturbation import Laplace
from sottovoce.privacy.terms import gradients, records as rooms_records
from sottovoce.privacy.vault import Ledger, OperatingSystemNoise, Vault, numbering
from sottovoce.privacy.vault.record_selection import find_positions, select_units
from sottovoce.privacy.vault.release import SealedRelease
from sottovoce_papers.hegedus_2017.golf.public.machine import Golf
from sottovoce_papers.hegedus_2017.golf.public.messages import GolfMessage
from sottovoce_papers.jin_2023.private import terms as chains

Mutant = Callable[[pytest.MonkeyPatch], None]
Values = NDArray[np.int64]

_SAMPLERS = (discrete_gaussian.DiscreteGaussianSampler, discrete_laplace.DiscreteLaplaceSampler)


def drawn_anew(vault: Vault, query: Query) -> Release:
    """A release with fresh noise, which no one paid for."""
    context = vault._context
    plan = context.program.plan(query)
    assert not isinstance(plan, Refused)
    value = plan.mechanism.apply(
        context.program.compute(query, select_units(context.records, plan.event.units)), context.noise
    )
    step, units = 2.0**plan.mechanism.exponent, plan.event.units.count
    return SealedRelease(query.id, value, step, context.statement, context.noise.simulated, units)


def noise_halved(patch: pytest.MonkeyPatch) -> None:
    """Half of every draw."""
    for sampler in _SAMPLERS:
        draw = sampler.draw
        patch.setattr(sampler, "draw", lambda self, count, draw=draw: draw(self, count) // 2)


def variance_for_deviation(patch: pytest.MonkeyPatch) -> None:
    """σ is taken for σ²: Disco's tfjs noise, the other way round."""
    begin = discrete_gaussian.DiscreteGaussianSampler.__init__

    def begun(self: Any, sigma: int, *rest: Any, **named: Any) -> None:
        begin(self, math.isqrt(sigma), *rest, **named)

    patch.setattr(discrete_gaussian.DiscreteGaussianSampler, "__init__", begun)


def sensitivity_halved(patch: pytest.MonkeyPatch) -> None:
    """Noise for half of the clip; in the L1 and K norms, for records as far from 0 as from each other."""
    calibrate, sensitivity = clipped_sum.calibrate, pure_sum._sensitivity

    def calibrated(*, clip: float, **named: Any) -> clipped_sum.DiscreteGaussian:
        fitting = calibrate(clip=clip / 2, **named)
        return replace(fitting, clip_squared=4 * fitting.clip_squared)

    patch.setattr(gradients, "calibrate", calibrated)
    patch.setattr(pure_sum, "_sensitivity", lambda *law: sensitivity(*law) // 2)
    patch.setattr(Laplace, "sensitivity", property(lambda self: self.unit))


def clip_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Rows go into the sum as long as they are."""
    patch.setattr(clipped_sum, "clip_to_grid", lambda rows, step, clip: clip_to_grid(rows, step, None))


def batch_clipped(patch: pytest.MonkeyPatch) -> None:
    """The sum is clipped, not each row."""
    patch.setattr(
        clipped_sum, "clip_to_grid", lambda rows, step, clip: clip_to_grid(rows.sum(axis=0)[np.newaxis], step, clip)
    )


def mean_clipped(patch: pytest.MonkeyPatch) -> None:
    """The mean is clipped, and multiplied by the number of rows."""

    def clipped(rows: Any, step: float, clip: int | None) -> Any:
        mean = rows.mean(axis=0)[np.newaxis] if len(rows) else rows
        return clip_to_grid(mean, step, clip) * len(rows)

    patch.setattr(clipped_sum, "clip_to_grid", clipped)


def single_number_exact(patch: pytest.MonkeyPatch) -> None:
    """A release of one number slips past the noise, as 0-d tensors do in Flower."""
    for mechanism in (clipped_sum.DiscreteGaussian, record_mechanism.RecordMechanism):
        apply = mechanism.apply

        def applied(self: Any, raw: Any, noise: Any, apply: Any = apply) -> Values:
            return np.zeros(1, dtype=np.int64) if self.size == 1 else apply(self, raw, noise)

        patch.setattr(mechanism, "apply", applied)


def zero_sum_exact(patch: pytest.MonkeyPatch) -> None:
    """A sum of zero is left as it is."""
    apply = clipped_sum.DiscreteGaussian.apply

    def applied(self: Any, raw: Any, noise: Any) -> Values:
        rows = list(raw)
        total = clipped_sum.sum_clipped_rows(self, iter(rows))
        return total if not total.any() else apply(self, iter(rows), noise)

    patch.setattr(clipped_sum.DiscreteGaussian, "apply", applied)


def empty_batch_silent(patch: pytest.MonkeyPatch) -> None:
    """A device without records does not answer."""
    answered(patch, lambda vault, query, answer: _no(query) if not len(vault._context.records) else answer)


def exhausted_exact(patch: pytest.MonkeyPatch) -> None:
    """Once the budget is spent, the exact value is published, as QuinkGL's fingerprints are."""

    def beyond(vault: Vault, query: Query, answer: Answer) -> Answer:
        if not isinstance(answer, Refused) or answer.reason != "budget":
            return answer
        context, slot = vault._context, replace(query, slot=0)
        plan = context.program.plan(slot)
        assert not isinstance(plan, Refused)
        raw, noisy = context.program.compute(slot, select_units(context.records, plan.event.units)), plan.mechanism
        if isinstance(noisy, pure_sum.PureSum):
            value = replace(noisy, law="none", scale=0, epsilon=math.inf).apply(raw, context.noise)
        else:
            assert isinstance(noisy, clipped_sum.DiscreteGaussian)
            value = clipped_sum.sum_clipped_rows(noisy, raw)
        step, units = 2.0**noisy.exponent, plan.event.units.count
        return SealedRelease(query.id, value, step, context.statement, context.noise.simulated, units)

    answered(patch, beyond)


def fresh_on_retry(patch: pytest.MonkeyPatch) -> None:
    """A question asked again is answered with new noise, uncharged."""
    known: set[tuple[int, bytes]] = set()

    def again(vault: Vault, query: Query, answer: Answer) -> Answer:
        first = (id(vault), query.id) not in known
        known.add((id(vault), query.id))
        return answer if first or isinstance(answer, Refused) else drawn_anew(vault, query)

    answered(patch, again)


def fresh_for_each_peer(patch: pytest.MonkeyPatch) -> None:
    """Every message draws the noise again, as p2pfl does for each neighbour."""
    last: list[Vault] = []
    send = Golf._send

    def remembered(vault: Vault, query: Query, answer: Answer) -> Answer:
        last[:] = [vault]
        return answer

    def sent(self: Golf, state: Any) -> Any:
        state, effects = send(self, state)
        return state, [_redrawn(last[-1], effect) if isinstance(effect, Send) else effect for effect in effects]

    answered(patch, remembered)
    patch.setattr(Golf, "_send", sent)


def accountant_reset(patch: pytest.MonkeyPatch) -> None:
    """A start finds an empty ledger, as NVFlare's does."""
    patch.setattr(Ledger, "open", classmethod(lambda cls, path, owner, budget: cls.in_memory(owner, budget)))


def noise_repeated(patch: pytest.MonkeyPatch) -> None:
    """Every device draws from the same seed."""

    def random_words(self: OperatingSystemNoise, count: int) -> NDArray[np.uint64]:
        return np.random.PCG64(7).random_raw(count).astype(np.uint64)

    patch.setattr(OperatingSystemNoise, "random_words", random_words)


def float_noise(patch: pytest.MonkeyPatch) -> None:
    """Laplace noise from numpy, added in floats that leave the device with all their digits."""

    def applied(self: Any, raw: Any, noise: Any) -> Values:
        scheme, row = self.scheme, raw.features[0]
        exact = np.kron(np.arange(scheme.classes) == raw.labels[0], row / max(np.abs(row).sum(), 1e-300))
        seen = exact + np.random.default_rng().laplace(0, 2 / scheme.epsilon, exact.size)
        units: Values = np.rint(seen * 2.0**-self.exponent).astype(np.int64)
        return units

    patch.setattr(record_mechanism.RecordMechanism, "exponent", property(lambda self: self.scheme.exponent - 24))
    patch.setattr(record_mechanism.RecordMechanism, "apply", applied)


def always_in_the_cap(patch: pytest.MonkeyPatch) -> None:
    """PrivUnit that never draws from outside its cap; a label that randomised response never changes."""
    patch.setattr(record_mechanism, "_uniform_bits", lambda bits, noise: 0)


def noise_follows_data(patch: pytest.MonkeyPatch) -> None:
    """The noise is as large as the sum it hides: AdaD²P."""
    apply = clipped_sum.DiscreteGaussian.apply

    def applied(self: Any, raw: Any, noise: Any) -> Values:
        rows = list(raw)
        total = clipped_sum.sum_clipped_rows(self, iter(rows))
        length = math.sqrt(float((total.astype(np.float64) ** 2).sum()))
        sigma = max(1, round(self.sigma * length / math.sqrt(self.clip_squared)))
        return apply(replace(self, sigma=min(sigma, discrete_gaussian.MAX_SIGMA)), iter(rows), noise)

    patch.setattr(clipped_sum.DiscreteGaussian, "apply", applied)


def answered(patch: pytest.MonkeyPatch, change: Callable[[Vault, Query, Answer], Answer]) -> None:
    """Change what a vault answers."""
    answer = Vault.answer
    patch.setattr(Vault, "answer", lambda self, query: change(self, query, answer(self, query)))


def _no(query: Query) -> Refused:
    return Refused(query.id, "empty", "there is nothing to say")


def _redrawn(vault: Vault, effect: Send) -> Send:
    message = effect.message
    assert isinstance(message, GolfMessage)
    records = tuple(
        replace(record, values=drawn_anew(vault, Query("golf", "record", record.slot, np.empty(0))).value)
        for record in message.records
    )
    return replace(effect, message=replace(message, records=records))


def sigma_a_percent_less(patch: pytest.MonkeyPatch) -> None:
    """σ - 1 %, while the right σ is charged."""
    begin = discrete_gaussian.DiscreteGaussianSampler.__init__

    def begun(self: Any, sigma: int, *rest: Any, **named: Any) -> None:
        begin(self, sigma * 99 // 100, *rest, **named)

    patch.setattr(discrete_gaussian.DiscreteGaussianSampler, "__init__", begun)


def draws_a_percent_smaller(patch: pytest.MonkeyPatch) -> None:
    """Every draw - 1 %."""
    _drawn(patch, lambda drawn, scale: np.rint(drawn * 0.99).astype(np.int64))


def tails_cut(deviations: float) -> Mutant:
    """No draw farther out than this: δ is no longer what it was."""

    def cut(patch: pytest.MonkeyPatch) -> None:
        _drawn(patch, lambda drawn, scale: np.clip(drawn, -int(deviations * scale), int(deviations * scale)))

    cut.__name__ = f"tails_cut_at_{deviations:g}"
    return cut


def sensitivity_a_percent_less(patch: pytest.MonkeyPatch) -> None:
    """Noise for a sensitivity of 1 % less than the clip that is applied."""
    calibrate = clipped_sum.calibrate

    def calibrated(**named: Any) -> clipped_sum.DiscreteGaussian:
        fitting = calibrate(**named)
        return replace(fitting, clip_squared=math.ceil(fitting.clip_squared / 0.99**2))

    patch.setattr(gradients, "calibrate", calibrated)


def poisson_rate_a_percent_more(patch: pytest.MonkeyPatch) -> None:
    """More records in a batch than the charge is for."""

    def drawn(self: Poisson, count: int, noise: Any) -> Values:
        limit = np.uint64(min(2**64 - 1, 2**64 * self.batch * 101 // (self.of * 100)))
        return np.flatnonzero(noise.random_words(count) < limit)

    patch.setattr(Poisson, "draw", drawn)


def _patch_find_positions(patch: pytest.MonkeyPatch, first: int, last: int) -> None:
    for module in ("record_selection", "vault"):
        patch.setattr(
            f"sottovoce.privacy.vault.{module}.find_positions",
            lambda records, units: find_positions(records, _moved(units, first, last)),
        )


def blocks_shifted(patch: pytest.MonkeyPatch) -> None:
    """The records of a block are those one number on."""
    _patch_find_positions(patch, 1, 1)


def blocks_overlap(patch: pytest.MonkeyPatch) -> None:
    """Each block reads one number of the next."""
    _patch_find_positions(patch, 0, 1)


def unit_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The ledger counts one unit fewer in each run than was charged."""
    add = Tally.add

    def added(self: Tally, event: Any) -> None:
        fewer = _moved(event.units, 0, -1)
        add(self, event if fewer is None or len(event.units.spans) != 1 else with_units(event, fewer))

    patch.setattr(Tally, "add", added)


def numbered_by_place(patch: pytest.MonkeyPatch) -> None:
    """A record is its place in the file, as in version 0.1."""

    def hashed(records: Records, key: bytes) -> Records:
        places = np.arange(len(records), dtype=np.int64)
        return replace(records, units=places * (numbering.SPACE // max(1, len(records))))

    def enrolled(records: Records, ledger: Ledger) -> Records:
        del ledger
        return replace(records, units=np.arange(len(records), dtype=np.int64))

    patch.setattr(gradients, "number_by_hash", hashed)
    for module in (chains, rooms_records):
        patch.setattr(module, "enrol_records", enrolled)


def read_as_planned(patch: pytest.MonkeyPatch) -> None:
    """Records of all units that were meant are read, whether or not they could still pay."""
    read = Vault._read
    patch.setattr(Vault, "_read", lambda self, records, plan, event: read(self, records, plan, plan.event))


def read_as_it_comes(patch: pytest.MonkeyPatch) -> None:
    """Of records that are followed everything is read that has come, also what is of a day that is not over."""
    read = Vault._read

    def everything(self: Vault, records: Records, plan: Any, event: Any) -> Any:
        return read(self, records, plan, event) if self._context.growing_records is None else None

    patch.setattr(Vault, "_read", everything)


def charged_to_the_next_window(patch: pytest.MonkeyPatch) -> None:
    """A window's release is charged to the window after it."""
    charge = Ledger.charge

    def charged(self: Ledger, query: bytes, event: Any) -> bool:
        return charge(self, query, with_units(event, _moved(event.units, 1, 1) or event.units))

    patch.setattr(Ledger, "charge", charged)


def noise_in_two_slots(patch: pytest.MonkeyPatch) -> None:
    """A device draws its noise once, and adds it to every release."""
    apply, kept = clipped_sum.DiscreteGaussian.apply, {}

    def applied(self: Any, raw: Any, noise: Any) -> Values:
        total = clipped_sum.sum_clipped_rows(self, raw)
        if self.size not in kept:
            kept[self.size] = apply(self, iter([]), noise)
        return total + kept[self.size]

    patch.setattr(clipped_sum.DiscreteGaussian, "apply", applied)


def seeded_noise(patch: pytest.MonkeyPatch) -> None:
    """A generator whose whole future follows from any few of its words; its seed is the operating system's."""
    source = np.random.PCG64()
    patch.setattr(
        OperatingSystemNoise, "random_words", lambda self, count: np.asarray(source.random_raw(count), dtype="u8")
    )


def points_not_rounded(patch: pytest.MonkeyPatch) -> None:
    """A point of the sphere leaves with 24 bits more than its grid has."""
    on_sphere = record_mechanism._draw_on_sphere
    patch.setattr(record_mechanism.RecordMechanism, "exponent", property(lambda self: self.scheme.exponent - 24))
    patch.setattr(
        record_mechanism,
        "_draw_on_sphere",
        lambda cap, exponent, row, offset, noise: on_sphere(cap, exponent - 24, row, offset, noise),
    )


def heads_from_strangers(patch: pytest.MonkeyPatch) -> None:
    """A ledger head counts, by any signer."""
    patch.setattr(SignedHead, "verify", lambda self, fleet: None)


def _drawn(patch: pytest.MonkeyPatch, change: Callable[[Values, int], Values]) -> None:
    """Change what the samplers draw, by their scale."""
    for sampler, scale in zip(_SAMPLERS, ("sigma", "scale"), strict=True):
        draw = sampler.draw
        patch.setattr(
            sampler, "draw", lambda self, count, draw=draw, scale=scale: change(draw(self, count), getattr(self, scale))
        )


def _moved(units: Units | None, first: int, last: int) -> Units | None:
    """Each run's ends moved by this many; all of them stay all."""
    if units is None or units == EVERY:
        return units
    spans = tuple((start + first, end + last) for start, end in units.spans if start + first <= end + last)
    return Units(spans) if spans else None
