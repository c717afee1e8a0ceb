"""Compute how valuable neighbours' gradients are to a device, and the weights that follow from these values.

`exact` and `monte-carlo` are PDSL's methods: they compute the Shapley value of each candidate y_ij = x_i - γ g_{i←j} in
a game in which the worth of a coalition is its mean's accuracy on public records. `cosine` and `uniform` need no such
records.

Weights are computed only from privatised gradients and public records, so they cost nothing. If the records were not
public, the weights would be a release that depends on these records.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import ConfigError

from sottovoce_papers.pdsl_2025 import shapley

Floats = NDArray[np.float64]
Method = Literal["exact", "monte-carlo", "cosine", "uniform"]


class Game(Protocol):
    """The coalition game that the PDSL paper defines in equations (16) and (17)."""

    def worth(self, candidates: Floats) -> Callable[[NDArray[np.int64]], Floats]:
        """Return the worth of coalitions, given as bit masks over the candidates float64[n, P]; 0 for ∅."""
        ...


@dataclass(frozen=True, slots=True)
class WeighingResult:
    """The result of weighting gradients.

    Attributes:
        weights: π, float64[n], which sums to 1.
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
class GradientWeighting:
    """A method for weighting gradients.

    Attributes:
        method: the method's name.
        game: the game used by `exact` and `monte-carlo`.
        permutations: the number of permutations R for `monte-carlo`, at least 2.
        seed: seed for the public permutations; anyone who has the gradients can recompute the weights.
    """

    method: Method
    game: Game | None = field(default=None, repr=False)
    permutations: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Check that there is a game if the method uses Shapley values."""
        if self.method in ("exact", "monte-carlo") and self.game is None:
            raise ConfigError(
                f"learner.shapley = {self.method} scores models on public records: specify them under data.public, or "
                "set learner.shapley = cosine, which needs none"
            )

    def __call__(self, model: Floats, gradients: Floats, rate: float, round_number: int) -> WeighingResult:
        """Weight gradients, float64[n, P], at a model, float64[P].

        Args:
            model: x.
            gradients: the gradients, starting with the device's own.
            rate: γ.
            round_number: the round t, which determines the random permutations.
        """
        if self.method == "uniform":
            return WeighingResult(np.full(len(gradients), 1 / len(gradients)))
        if self.method == "cosine" or self.game is None:
            return WeighingResult(shapley.weights_by_mean(gradients))
        candidates = model - rate * gradients
        worth = self.game.worth(candidates)
        if self.method == "exact":
            values = shapley.exact(worth, len(candidates))
        else:
            generator = np.random.default_rng((self.seed, round_number))
            values, _ = shapley.monte_carlo(worth, len(candidates), self.permutations, generator)
        return WeighingResult(shapley.mixing_weights(values), values, candidates)
