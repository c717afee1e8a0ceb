"""Parts of a shared model that devices update in turn (Jin, He & Dai 2023): without- and with-replacement."""

import math
from typing import TYPE_CHECKING, Literal

from sottovoce.plugin import (
    AgentConfig,
    Family,
    GradientTerms,
    Kernel,
    LearnerAndCodec,
    PrivacyError,
    StoredRecords,
    Terms,
    build_kernel,
    published_terms,
    settings_of,
)

from sottovoce_papers.jin_2023.private.lemmas import loss_constants
from sottovoce_papers.jin_2023.private.terms import ChainTerms
from sottovoce_papers.jin_2023.published_steps import published_step_sizes, visits
from sottovoce_papers.jin_2023.settings import SharedModelSettings

if TYPE_CHECKING:
    from sottovoce.plugin import Provenance

    from sottovoce_papers.jin_2023.public.state import SharedModelSchedule

INITIAL_SEED = 0
"""Seed for the public initial model, which is the same in every fleet."""

_SUM_PASSES = 3
"""Number of sums that each record is in. On digits with 12 devices at ε = 2, this and one sum over all records reach
0.88 and 0.84, instead of 0.78 and 0.67 for one pass over thirds (docs/explanation/shared-model.md)."""
_RECORDS_PER_TURN = 1000  # with fewer, a sum's noise dominates, and one sum over all records is best
_MAX_TURNS = 3
_CHAIN_STEP_SIZE = 0.5  # step size without noise, if no lemma provides a better one for the loss
_RADIUS = 2.0**11  # see ChainTerms
_MAX_SHRINKAGE = 1 / 16  # of the model by a regulariser in one step: each step keeps 15/16 of it

QueryKind = Literal["gradient", "chain", "decisions"]


def build_parts(config: AgentConfig) -> Family:
    """Return the parts of a shared-model learner: without-replacement or with-replacement."""
    learner = settings_of(config, SharedModelSettings)
    kernel = build_kernel(config)

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce_papers.jin_2023.codec import SharedModelCodec
        from sottovoce_papers.jin_2023.public.machine import SharedModel, round_to_float32

        shared = SharedModel(build_schedule(config, kernel), owner, round_to_float32(kernel.initial(INITIAL_SEED)))
        return shared, SharedModelCodec(shared)

    terms = published_terms("shared_model", config) if learner.fidelity == "paper" else _terms(config, kernel)
    facts = {
        "turns": _global_turns(config),
        "asks": _query_kind(config),
        "batch": batch_size(config),
        "order": _order(config),
    }
    enrols_records = isinstance(terms, ChainTerms)
    return Family(kernel, kernel, terms, make_learner, enrols_records=enrols_records, facts=facts)


def build_schedule(config: AgentConfig, kernel: Kernel) -> "SharedModelSchedule":
    """Return a device's public schedule."""
    from sottovoce_papers.jin_2023.public.state import SharedModelSchedule

    learner, asks = settings_of(config, SharedModelSettings), _query_kind(config)
    paper, random = learner.fidelity == "paper", learner.name == "with-replacement"
    strong = learner.regularisation > 0 and not random
    return SharedModelSchedule(
        learner=learner.name,
        period=learner.period,
        turns=_global_turns(config),
        asks=asks,
        batch=batch_size(config),
        step_size=_step_size(config, kernel, asks),
        law="inverse-root" if random else "strongly-convex" if strong else "constant",
        slope=theorem_slope(config),
        regularisation=learner.regularisation if asks == "gradient" or not paper else 0.0,
        radius=_RADIUS,
        order=_order(config),
        patience=learner.deadline,
        begins=learner.begins_walk,
    )


def _global_turns(config: AgentConfig) -> int:
    """Return a device's number of global turns; 0 if all steps are local."""
    controller, _ = settings_of(config, SharedModelSettings).control
    return 0 if controller == "always-local" else _turns(config)


def _order(config: AgentConfig) -> Literal["random", "round"]:
    return "random" if config.learner.name == "with-replacement" else "round"


def batch_size(config: AgentConfig) -> int:
    """Return the batch size b: as configured, else 50 as in the paper, or the best size for sound sums.

    Without replacement, the best batch contains all records. With replacement, it contains all, half or a third of
    them, depending on how many thousands of records there are.
    """
    learner = settings_of(config, SharedModelSettings)
    if learner.batch is not None:
        return learner.batch
    if learner.fidelity == "paper" or _query_kind(config) != "gradient":
        return learner.batch_size
    records = max(1, _records(config))
    if learner.name == "with-replacement":
        return records // min(_MAX_TURNS, max(1, records // _RECORDS_PER_TURN))
    return records


def _passes(config: AgentConfig) -> int:
    """Return the number of passes over the records: as configured, else 3 for sound sums and 1 as in the paper."""
    learner = settings_of(config, SharedModelSettings)
    if learner.passes is not None:
        return learner.passes
    sums = learner.name == "without-replacement" and learner.fidelity == "sound" and _query_kind(config) == "gradient"
    return _SUM_PASSES if sums else 1


def _records(config: AgentConfig) -> int:
    """Return a device's public record count, rounded down for chains, which consist of actual records."""
    expected = config.data.expected_records
    return round(expected) if _query_kind(config) == "gradient" else int(expected)


def theorem_slope(config: AgentConfig) -> float:
    """Return Theorem 4's constant a, which is half the fraction of global steps."""
    return 0.5 / _period(config)


def _query_kind(config: AgentConfig) -> QueryKind:
    learner = settings_of(config, SharedModelSettings)
    if learner.name == "with-replacement":
        return "gradient"
    controller, every = learner.control
    if controller == "deep-q":
        return "decisions"
    sums = controller != "always-global" and every == 1
    return "gradient" if sums and learner.fidelity == "sound" else "chain"


def _period(config: AgentConfig) -> int:
    """Return R, the number of batches in a chain."""
    controller, every = settings_of(config, SharedModelSettings).control
    return every if controller == "schedule" else 1


def _turns(config: AgentConfig) -> int:
    """Return a device's number of turns."""
    learner, records = settings_of(config, SharedModelSettings), _records(config)
    if learner.name == "with-replacement" and learner.fidelity == "paper":
        return visits(records, batch_size(config))
    records_per_turn = batch_size(config) * _period(config)
    return _passes(config) * max(1, records // records_per_turn)


def _step_size(config: AgentConfig, kernel: Kernel, asks: QueryKind) -> float:
    """Return η: as configured, else the default for sums, the paper's value, or the largest that the lemma allows.

    The default step size is tuned for batches of `tuned_batch` records. For smaller batches, which are noisier, it
    shrinks with the square root of the batch size. In a step along a sum, the regulariser removes at most the fraction
    _MAX_SHRINKAGE of the model.
    """
    learner = settings_of(config, SharedModelSettings)
    if learner.fidelity == "paper":
        return published_step_sizes(config, theorem_slope(config)).first or 1.0
    if learner.step_size is not None:
        return learner.rate
    if asks == "gradient":
        rate = learner.rate * min(1.0, math.sqrt(batch_size(config) / learner.tuned_batch))
        return min(rate, _MAX_SHRINKAGE / learner.regularisation) if learner.regularisation else rate
    try:
        return 1 / (2 * loss_constants(kernel).with_regulariser(learner.regularisation).smoothness)
    except PrivacyError:  # a noise-free run may have no lemma; with noise, the vault refuses the query
        return _CHAIN_STEP_SIZE


def _terms(config: AgentConfig, kernel: Kernel) -> Terms:
    learner, asks, batch = settings_of(config, SharedModelSettings), _query_kind(config), batch_size(config)
    if asks == "chain":
        return ChainTerms(
            learner=learner.name,
            step_size=_step_size(config, kernel, asks),
            batch=batch,
            period=_period(config),
            passes=_passes(config),
            regularisation=learner.regularisation,
            slope=theorem_slope(config),
            radius=_RADIUS,
        )
    random = learner.name == "with-replacement"
    records = max(batch, _records(config))
    return GradientTerms(
        learner=learner.name,
        releases=_turns(config) if random else _passes(config),
        clip=learner.clip,
        sampling="poisson" if random else "blocks",
        batch=batch,
        of=records,
    )
