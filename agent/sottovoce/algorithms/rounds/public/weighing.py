"""Value of each neighbour's gradient to a device, and the weights that follow from these values.

`exact` and `monte-carlo` are PDSL's: the Shapley value of a candidate y_ij = x_i - γ g_{i←j} in the game whose
coalitions are worth the accuracy of their mean on public records. `cosine` and `uniform` need no such records.

Weights are computed from privatised gradients and public records alone, so that they cost nothing. With records that
are not public, the weights would be a release of these records.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised import cosine, shapley

Floats = NDArray[np.float64]
How = Literal["exact", "monte-carlo", "cosine", "uniform"]


class Game(Protocol):
    """Game of equations (16), (17)."""

    def worth(self, candidates: Floats) -> Callable[[NDArray[np.int64]], Floats]:
        """Return the worth of coalitions, each a bit mask over the candidates float64[n, P]; 0 for none."""
        ...


@dataclass(frozen=True, slots=True)
class Weighed:
    """Outcome of weighing gradients.

    Attributes:
        weights: π, float64[n], with sum 1.
        values: φ, float64[n]; None if the weights do not depend on them.
        candidates: y, float64[n, P]; None in the same case.
    """

    weights: Floats
    values: Floats | None = None
    candidates: Floats | None = None

    def facts(self, names: list[str]) -> dict[str, Any]:
        """Return the weights and scores by the owners of the gradients."""
        facts: dict[str, Any] = {"weights": dict(zip(names, self.weights, strict=True))}
        if self.values is not None and self.candidates is not None:
            facts["phi"] = dict(zip(names, self.values, strict=True))
            facts["candidates"] = dict(zip(names, self.candidates, strict=True))
        return facts


@dataclass(frozen=True, slots=True)
class Weighing:
    """Method of weighing gradients.

    Attributes:
        how: name of the method.
        game: the game for `exact` and `monte-carlo`.
        permutations: R of `monte-carlo`, at least 2.
        seed: seed of its permutations, which are public: anyone who has the gradients can compute the weights again.
    """

    how: How
    game: Game | None = field(default=None, repr=False)
    permutations: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Check that a method with Shapley values has a game."""
        if self.how in ("exact", "monte-carlo") and self.game is None:
            raise ConfigError(
                f"learner.shapley = {self.how} scores models on public records: name them under data.public, or choose "
                "learner.shapley = cosine, which needs none"
            )

    def __call__(self, model: Floats, gradients: Floats, rate: float, turn: int) -> Weighed:
        """Weigh gradients float64[n, P] at a model float64[P].

        Args:
            model: x.
            gradients: gradients, the device's own first.
            rate: γ.
            turn: the round t, from which permutations are drawn.
        """
        if self.how == "uniform":
            return Weighed(np.full(len(gradients), 1 / len(gradients)))
        if self.how == "cosine" or self.game is None:
            return Weighed(cosine.weights_by_mean(gradients))
        candidates = model - rate * gradients
        worth = self.game.worth(candidates)
        if self.how == "exact":
            values = shapley.exact_from_worth(worth, len(candidates))
        else:
            generator = np.random.default_rng((self.seed, turn))
            values, _ = shapley.monte_carlo_from_worth(worth, len(candidates), self.permutations, generator)
        return Weighed(shapley.normalised(values), values, candidates)
