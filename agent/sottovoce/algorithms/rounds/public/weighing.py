"""Values of neighbours' gradients to a device, and the weights derived from these values.

`exact` and `monte-carlo` are PDSL's methods: the Shapley value of a candidate y_ij = x_i - γ g_{i←j} in the game where
the worth of a coalition is the accuracy of its mean on public records. `cosine` and `uniform` need no such records.

Weights are computed only from privatised gradients and public records, so they cost nothing. If the records were not
public, the weights would be a release of these records.
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
        """Return the worth function over coalitions, each a bit mask over the candidates float64[n, P]; 0 for ∅."""
        ...


@dataclass(frozen=True, slots=True)
class Weighed:
    """Result of weighing gradients.

    Attributes:
        weights: π, float64[n], with sum 1.
        values: φ, float64[n]; None if the weights do not depend on values.
        candidates: y, float64[n, P]; None if the weights do not depend on values.
    """

    weights: Floats
    values: Floats | None = None
    candidates: Floats | None = None

    def facts(self, names: list[str]) -> dict[str, Any]:
        """Return weights, values and candidates by gradient owner; `names` lists the owners in order."""
        facts: dict[str, Any] = {"weights": dict(zip(names, self.weights, strict=True))}
        if self.values is not None and self.candidates is not None:
            facts["phi"] = dict(zip(names, self.values, strict=True))
            facts["candidates"] = dict(zip(names, self.candidates, strict=True))
        return facts


@dataclass(frozen=True, slots=True)
class Weighing:
    """Method for weighing gradients.

    Attributes:
        how: name of the method.
        game: game for `exact` and `monte-carlo`.
        permutations: number of permutations R for `monte-carlo`, at least 2.
        seed: seed of the public permutations; anyone who has the gradients can recompute the weights.
    """

    how: How
    game: Game | None = field(default=None, repr=False)
    permutations: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Check that a method based on Shapley values has a game."""
        if self.how in ("exact", "monte-carlo") and self.game is None:
            raise ConfigError(
                f"learner.shapley = {self.how} scores models on public records: specify them under data.public, or set "
                "learner.shapley = cosine, which needs none"
            )

    def __call__(self, model: Floats, gradients: Floats, rate: float, turn: int) -> Weighed:
        """Weigh gradients float64[n, P] at a model float64[P].

        Args:
            model: x.
            gradients: gradients, starting with the device's own.
            rate: γ.
            turn: round t, which determines the random permutations.
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
