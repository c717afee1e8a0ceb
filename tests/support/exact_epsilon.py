"""ε of charges by a second library, from what each charge says about its noise and its sampling.

Results are rounded down, and belong to an attack that exists: a printed ε below them is false.
"""

import logging
from collections.abc import Iterator, Mapping

from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as losses
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from sottovoce.privacy.accounting.events import CellSum, Event, GaussianSum, PureRelease, RecordReleased
from sottovoce.privacy.accounting.sampled import SampledGaussian

_RELATIONS = {
    "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": NeighboringRelation.REPLACE_ONE,
}
# Rounding down is only possible without "connecting the dots", which the library says each time.
logging.getLogger().addFilter(lambda entry: "Connect-the-Dots" not in entry.getMessage())


def exact_epsilon(charges: Mapping[Event, int], delta: float) -> float:
    """Return ε at δ of all charges to one unit together, each as often as stated, rounded down.

    Raises:
        NotImplementedError: if the cost of a charge is not known here.
    """
    composed: PrivacyLossDistribution | None = None
    for part in _loss_distributions(charges):
        composed = part if composed is None else composed.compose(part)
    return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def _loss_distributions(charges: Mapping[Event, int]) -> Iterator[PrivacyLossDistribution]:
    mu_squared = 0.0
    for event, count in charges.items():
        match event:
            case GaussianSum():
                mu_squared += count * event.sensitivity_squared / event.sigma**2
            case CellSum():
                mu_squared += count * event.sensitivity_squared / (event.honest * event.share**2)
            case SampledGaussian():
                yield _sampled(event).self_compose(count)
            case PureRelease():
                yield _pure(event.sensitivity / event.scale).self_compose(count)
            case RecordReleased():
                yield _pure(event.epsilon).self_compose(count)
            case _:
                raise NotImplementedError(f"the cost of {type(event).__name__} is not known here: add it")
    if mu_squared:
        yield losses.from_gaussian_mechanism(mu_squared**-0.5, pessimistic_estimate=False)


def _sampled(event: SampledGaussian) -> PrivacyLossDistribution:
    """Return the losses of a record against none, or against its opposite, among records that add nothing to a sum."""
    return losses.from_gaussian_mechanism(
        event.sigma,
        event.sensitivity_squared**0.5,
        pessimistic_estimate=False,
        sampling_prob=event.batch / event.of,
        neighboring_relation=_RELATIONS[event.neighbouring],
    )


def _pure(epsilon: float) -> PrivacyLossDistribution:
    return losses.from_laplace_mechanism(1 / epsilon, pessimistic_estimate=False)
