"""Parts of `group-sgd`, DP-SGD over secure sums: all members take the same steps along sums of clipped gradients."""

import math
from typing import TYPE_CHECKING

from sottovoce.algorithms.family import (
    NOISE_DISTANCE,
    Family,
    FirstStep,
    LearnerAndCodec,
    StoredRecords,
    build_kernel,
    noise_bounded_step,
    required_budget,
    settings_of,
)
from sottovoce.algorithms.group_sgd.centring import describe_centre, record_sum
from sottovoce.algorithms.group_sgd.settings import GroupSgdSettings
from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.terms.gradients import kernel_clips_and_sums

if TYPE_CHECKING:
    from sottovoce.learning.learners import Provenance

INITIAL_SEED = 0
"""Seed for the public initial model, which is the same in every fleet."""

_MAX_RECORDS_FACTOR = 4  # as a multiple of the expected number of records per device
_MAX_STEP_FACTOR = 12.0
"""Maximum step size, as a multiple of the default: six times that of push-sum, because all members take the same step.
With push-sum's limit, accuracy on digits, MNIST, image segmentation and Spambase (ε = 2, 20 steps) is 0.918, 0.800,
0.830 and 0.908 instead of 0.932, 0.863, 0.858 and 0.920 (docs/explanation/secure-sums.md)."""


def build_parts(config: AgentConfig) -> Family:
    """Return the parts of `group-sgd`."""
    learner, cell = settings_of(config, GroupSgdSettings), _cell(config)
    kernel, expected_records = build_kernel(config), config.data.expected_records
    records = record_sum(config)
    terms = CellGradientTerms(
        learner.name,
        learner.steps + (0 if records is None else 1),
        learner.clip,
        cell,
        math.ceil(_MAX_RECORDS_FACTOR * expected_records),
        records,
    )

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce.algorithms.cell.codec import CellCodec
        from sottovoce.algorithms.cell.public.machine import Cells
        from sottovoce.algorithms.cell.public.sum_consumer import CellMean, DescentConsumer
        from sottovoce.algorithms.steps.public.descent import Schedule

        schedule = Schedule(
            learner=learner.name,
            size=kernel.size,
            period=learner.period,
            steps=learner.steps,
            step_size=_first_step(config, kernel.size).step_size,
            step_decay=learner.step_decay,
            expected_records=expected_records,
            fanout=1,
        )
        mechanism = terms.mechanism(
            kernel, required_budget(config), by_kernel=kernel_clips_and_sums(kernel, required_budget(config), None)
        )
        mean = None
        if records is not None:
            mean = CellMean(
                columns=records.columns,
                bias=records.bias,
                length=records.clip / learner.clip,
                noise=lambda members: mechanism.share(members) * math.sqrt(members) * mechanism.step,
            )
        consumer = DescentConsumer(
            schedule, kernel.initial(INITIAL_SEED), mechanism.step, mechanism.width, mechanism.largest_value, mean
        )
        cells = Cells(
            learner.name, owner=owner, consumer=consumer, period=learner.period, cell=cell, provenance=provenance
        )
        return cells, CellCodec(cells)

    return Family(
        kernel,
        kernel,
        terms,
        make_learner,
        first_step=lambda: _first_step(config, kernel.size),
        centre=lambda: describe_centre(config),
    )


def _cell(config: AgentConfig) -> Cell:
    if config.cell is None:
        raise ConfigError(f'privacy.noise: learner {config.learner.name} uses secure sums: set noise = "cell"')
    return config.cell


def _first_step(config: AgentConfig, size: int) -> FirstStep:
    """Return the first step: as configured, or as for one device that has all of the smallest cell's records."""
    learner = settings_of(config, GroupSgdSettings)
    if learner.step_size is not None or config.unit != "record":
        return FirstStep(learner.steps, learner.rate, None)
    limits, records = (NOISE_DISTANCE, _MAX_STEP_FACTOR * learner.rate), config.data.expected_records
    rate = noise_bounded_step(
        config, size, steps=learner.steps, clip=learner.clip, records=records * _cell(config).least, limits=limits
    )
    return FirstStep(learner.steps, rate, limits)
