"""Parts of `average`, which computes the mean of one bounded vector per device by push-sum or secure sums."""

from typing import TYPE_CHECKING

from sottovoce.algorithms.average.settings import AverageSettings
from sottovoce.algorithms.family import Family, LearnerAndCodec, StoredRecords, required_budget, settings_of
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.data.products import Products, make_products
from sottovoce.errors import ConfigError
from sottovoce.kernels.profile import Mean, Profile
from sottovoce.privacy.terms.means import MeanTerms

if TYPE_CHECKING:
    from sottovoce.learning.learners import Provenance

_HALF_HOURS, _LEAST_DAYS = 48, 365


def build_parts(config: AgentConfig) -> Family:
    """Return the parts of `average`.

    `average` is push-sum with a single step on a single vector. The mean minimises Σ ½‖z - v‖². The gradient of
    ½‖z - v‖² at 0 is -v, so one step of size 1 against it adds v to the mass.
    """
    learner, data = settings_of(config, AverageSettings), config.data
    features = width(data.transform, data.features)
    profile = _products(config, learner) if learner.products else _profile(learner, features)
    model = Mean(profile.size if isinstance(profile, Products) else features)

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce.algorithms.push_sum.codec import PushSumCodec
        from sottovoce.algorithms.push_sum.public.machine import PushSum
        from sottovoce.algorithms.steps.public.descent import Schedule

        # push-sum mass is anonymous, and no records are published
        schedule = Schedule(
            learner=learner.name,
            size=profile.size,
            period=learner.period,
            steps=1,
            step_size=-1.0,
            step_decay=0.0,
            expected_records=1.0,
            fanout=learner.fanout,
            asks="mean",
            share_bits=learner.share_bits,
        )
        push_sum = PushSum(schedule, to_model=profile.vector)
        return push_sum, PushSumCodec(push_sum)

    terms = MeanTerms(learner.name, profile, config.cell)
    if config.cell is not None:
        return _build_secure_sum_parts(config, learner, model, terms)
    return Family(model, None, terms, make_learner, facts=_facts(config, terms))


def _products(config: AgentConfig, learner: AverageSettings) -> Products:
    """Return the products that a home contributes to.

    Raises:
        ConfigError: if the rows are not days of half-hourly loads, or the declared days are less than a year.
    """
    data = config.data
    if (data.features, data.transform) != (_HALF_HOURS, "none"):
        raise ConfigError(
            f"learner.products: products need days of {_HALF_HOURS} half-hourly loads; set data.features to "
            f'{_HALF_HOURS} and data.transform to "none"'
        )
    if data.windows is None or data.windows[1] - data.windows[0] + 1 < _LEAST_DAYS:
        raise ConfigError(
            f"data.windows: products describe a year: declare the first and the last of at least {_LEAST_DAYS} days"
        )
    return make_products(learner.products, learner.shares, learner.flags, learner.public, learner.fleet_size)


def _profile(learner: AverageSettings, size: int) -> Profile:
    """Return the profile that turns a vector into the coefficients to release.

    Raises:
        ConfigError: if the prior or the harmonics do not fit a vector of this size.
    """
    if learner.prior and len(learner.prior) != size:
        raise ConfigError(
            f"learner.prior: {len(learner.prior)} values are set, but vectors have {size} elements: set one value per "
            "element"
        )
    if learner.harmonics is not None and 2 * learner.harmonics >= size:
        raise ConfigError(
            f"learner.harmonics: a vector with {size} elements has at most {(size - 1) // 2} harmonics: set fewer"
        )
    return Profile(size, learner.clip, learner.prior, learner.harmonics, learner.shape_clip)


def _facts(config: AgentConfig, terms: MeanTerms) -> dict[str, float]:
    """Return noise facts. With secure sums, assume the smallest round, in which each device adds the most noise."""
    members = 1 if config.cell is None else config.cell.least
    return {"noise_deviation": terms.deviation(required_budget(config), members), "clip": terms.profile.bound}


def _build_secure_sum_parts(config: AgentConfig, learner: AverageSettings, model: Mean, terms: MeanTerms) -> Family:
    """Return the parts of `average` with secure sums."""
    mechanism = terms.cell_mechanism(required_budget(config))

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce.algorithms.cell.codec import CellCodec
        from sottovoce.algorithms.cell.public.machine import Cells
        from sottovoce.algorithms.cell.public.sum_consumer import MeanConsumer

        cells = Cells(
            learner.name,
            owner=owner,
            consumer=MeanConsumer(
                terms.profile, mechanism.step, mechanism.width, mechanism.largest_value, mechanism.share
            ),
            period=learner.period,
            cell=mechanism.cell,
            provenance=provenance,
        )
        return cells, CellCodec(cells)

    return Family(model, None, terms, make_learner, facts=_facts(config, terms))
