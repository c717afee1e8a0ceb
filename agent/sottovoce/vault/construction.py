"""From plain values to a working vault."""

from dataclasses import dataclass

from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.guarantee import guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.mechanism import Mechanism, calibrate, exact
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import GradientSum
from sottovoce.vault.vault import Room, Vault


@dataclass(frozen=True, slots=True)
class Terms:
    """What a learner asks of its vault, all of it public.

    Attributes:
        learner: `clipd2p`, or `push-sum`, which neither clips nor adds noise.
        releases: how many gradient sums the budget is spread over.
        clip: per-example L2 threshold.
    """

    learner: str
    releases: int
    clip: float


def build(*, records: Records, kernel: Kernel, terms: Terms, ledger: Ledger, noise: NoiseSource) -> Vault:
    """A vault over `records` that keeps to `terms` and to the ledger's budget.

    Raises:
        PrivacyError: the terms have no guarantee under this budget, or it cannot be calibrated.
    """
    budget = ledger.budget
    clip = None if terms.learner == "push-sum" else terms.clip
    mechanism: Mechanism
    if budget.epsilon is None:
        mechanism = exact(clip=clip)
    elif clip is None:
        raise PrivacyError(
            f"learner `{terms.learner}` adds no noise, so no ε holds for it: use `clipd2p`, "
            "or `--epsilon inf` in the testbed"
        )
    else:
        mechanism = calibrate(
            clip=clip,
            size=kernel.size,
            releases=terms.releases,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
        )
    room = Room(records, GradientSum(kernel, mechanism), ledger, noise, guarantee(budget, mechanism, clip))
    return Vault(room)
