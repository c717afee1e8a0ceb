"""Weights for neighbours' gradients in PDSL: Shapley values of coalitions, or cosine similarity.

A Shapley value measures how much a neighbour's gradient contributes to an average's score (PDSL 2025, eqs. 16-20).

The players are the n = |N_i| agents in a neighbourhood, numbered from 0 and including agent i. A coalition S has the
worth v(S), which in PDSL is the accuracy, on public data, of the mean ȳ_S of its members' candidates. If the data were
private, every worth would be a release.

The worths of many coalitions (eqs. 16, 17) are computed at once. The output of a first layer is linear in its
parameters, so the first layer of a mean of candidates is the mean of their first layers. Records therefore pass through
the first layer once per candidate rather than once for each of 2ⁿ coalitions. Coalitions are scored in float32, which
is a hundred times as fast as float64 if the model has a tanh. Records whose label wins or loses by so little that
rounding could decide the outcome are scored again in float64. The result is therefore the same as if all records had
been scored in float64.

Cosine similarity compares gradients that are noisy releases already, so weights computed from them cost no privacy and
need no labelled public data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import ConfigError, Model, Perceptron, Softmax

MAX_EXACT_PLAYERS = 12
"""Maximum number of players for which a device can evaluate all 2ⁿ coalitions."""

MAX_SAMPLED_PLAYERS = 62
"""Maximum number of players for which a coalition fits into one integer as a bit mask."""

_CHUNK = 2**21  # values in one stack of averages: 16 MiB

Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Worth = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Maps coalitions, given as bit masks, to their worth."""


def mixing_weights(phi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mixing weights from Shapley values, float64[n]: max(φ, 0)/Σ, or equal weights if no value is positive.

    The publication omits the text of eqs. (19) and (20), so this formula is only one possible reconstruction.
    """
    positive = np.maximum(phi, 0.0)
    total = positive.sum()
    weights: NDArray[np.float64] = positive / total if total > 0 else np.full(len(phi), 1 / len(phi))
    return weights


def batched_worth(candidates: NDArray[np.float64], score: Score) -> Worth:
    """Return the worth in eqs. (16), (17), where v(S) is the score of the members' mean candidate, and v(∅) = 0.

    Args:
        candidates: float64[n,P], y_ij = x_i - γ·g_{i←j}, one row per player.
        score: maps parameter vectors float64[m,P] to their scores float64[m]; called with many coalitions' means.
    """
    rows = max(1, _CHUNK // candidates.shape[1])

    def worth(masks: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.zeros(len(masks))
        non_empty = np.flatnonzero(masks)
        for batch in (non_empty[start : start + rows] for start in range(0, len(non_empty), rows)):
            members = masks[batch, np.newaxis] >> np.arange(len(candidates)) & 1
            values[batch] = score(members / members.sum(axis=1, keepdims=True) @ candidates)
        return values

    return worth


def exact(worth: Worth, players: int) -> NDArray[np.float64]:
    """Return φ_j = Σ_{S ∌ j} |S|! (n-|S|-1)!/n! · (v(S+j) - v(S)), eq. (18).

    Args:
        worth: v, called once with all 2ⁿ coalitions, including the empty one.
        players: the number of players n.

    Returns:
        φ, float64[n]; its sum is v(all) - v(∅).

    Raises:
        ConfigError: if there are no players, or more than MAX_EXACT_PLAYERS.
    """
    if not 1 <= players <= MAX_EXACT_PLAYERS:
        raise ConfigError(
            f"exact Shapley values need 1 to {MAX_EXACT_PLAYERS} players, not {players}: choose monte-carlo, or a "
            f"topology with fewer neighbours"
        )
    masks = np.arange(1 << players)
    values = worth(masks)
    shares = np.array([1 / (players * math.comb(players - 1, size)) for size in range(players)])
    phi = np.empty(players)
    for player in range(players):
        without_player = masks[masks >> player & 1 == 0]
        phi[player] = shares[np.bitwise_count(without_player)] @ (
            values[without_player | 1 << player] - values[without_player]
        )
    return phi


def monte_carlo(
    worth: Worth, players: int, permutations: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimate Shapley values by Algorithm 2, which averages each player's gain on arrival over random arrival orders.

    Args:
        worth: v, called once with all coalitions that occur.
        players: the number of players n.
        permutations: the number R of random orders.
        generator: the source of the random orders.

    Returns:
        φ and its standard error, float64[n] each; φ sums to v(all) - v(∅), whatever the orders.

    Raises:
        ConfigError: if there are fewer than 2 permutations, no players, or more than MAX_SAMPLED_PLAYERS.
    """
    if not 1 <= players <= MAX_SAMPLED_PLAYERS or permutations < 2:
        raise ConfigError(
            f"sampled Shapley values need at least 2 permutations of 1 to {MAX_SAMPLED_PLAYERS} players, not "
            f"{permutations} of {players}: choose more permutations, or a topology with fewer neighbours"
        )
    orders = generator.permuted(np.tile(np.arange(players), (permutations, 1)), axis=1)
    prefixes = np.zeros((permutations, players + 1), dtype=np.int64)
    np.cumsum(np.left_shift(1, orders), axis=1, out=prefixes[:, 1:])
    masks, inverse = np.unique(prefixes, return_inverse=True)
    values = worth(masks)[inverse.reshape(prefixes.shape)]
    gains = np.empty((permutations, players))
    np.put_along_axis(gains, orders, np.diff(values, axis=1), axis=1)
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / math.sqrt(permutations)


Floats = NDArray[np.float64]
_HeadLogits = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
_Margins = Callable[[NDArray[np.float32], NDArray[np.float32]], tuple[NDArray[np.float32], np.float32]]
"""Maps weights float32[m, n] and heads float32[m, H] to margins and the scale of their rounding errors.

A margin, float32[m, M], is the difference between the logit of a record's label and the largest other logit.
"""

_BATCH_VALUES = 2**17  # first-layer values in one batch of coalitions, few enough to stay in the cache
_DOUBTFUL_MARGIN = 2.0**-14  # relative to the margins' scale, and far larger than float32 rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyGame:
    """The game where v(S) is the accuracy, on public records, of the mean of the members' candidates, and v(∅) = 0.

    Attributes:
        model: the model that the candidate parameters belong to.
        features: float64[M, d], public.
        labels: int64[M].
    """

    model: Model
    features: Floats = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def worth(self, candidates: Floats) -> Worth:
        """Return a function that maps coalitions, as bit masks over the candidates float64[n, P], to their worth."""
        match self.model:
            case Softmax(features=d, classes=c):
                logits = self.features @ candidates.reshape(-1, d, c)
                margins = _linear_margins(logits, self.labels)
                return _LayeredWorth(logits, candidates[:, :0], lambda layer, head: layer, self.labels, margins)
            case Perceptron(classes=c, hidden=h) as model:
                layer, head = model.first_layer(candidates, self.features), candidates[:, -c * (h + 1) :]
                margins = _layered_margins(layer, model.logits_from_layer, self.labels)
                return _LayeredWorth(layer, head, model.logits_from_layer, self.labels, margins)
            case _:
                return batched_worth(candidates, self._accuracy)

    def _accuracy(self, parameters: Floats) -> Floats:
        accuracy: Floats = (self.model.predict(parameters, self.features) == self.labels).mean(axis=1)
        return accuracy


def _linear_margins(logits: Floats, labels: NDArray[np.int64]) -> _Margins:
    """Return the margins function of a model whose logits, float64[n, M, c], are linear in its parameters."""
    others = np.arange(logits.shape[2]) != labels[:, np.newaxis]
    label_logits = logits[:, ~others]
    other_logits = logits[:, others].reshape(*label_logits.shape, -1).transpose(0, 2, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # records with overflowing values are scored again in float64
        differences = label_logits[:, np.newaxis] - other_logits
        coarse = differences.reshape(len(logits), -1).astype(np.float32)
        scale = np.abs(coarse).max()

    def margins(shares: NDArray[np.float32], heads: NDArray[np.float32]) -> tuple[NDArray[np.float32], np.float32]:
        return (shares @ coarse).reshape(-1, *differences.shape[1:]).min(axis=1), scale

    return margins


def _layered_margins(layer: Floats, head_logits: _HeadLogits, labels: NDArray[np.int64]) -> _Margins:
    """Return the margins function of a model whose first layer, float64[n, M, h], is linear in its parameters."""
    with np.errstate(over="ignore"):  # as above
        coarse = layer.reshape(len(layer), -1).astype(np.float32)

    def margins(shares: NDArray[np.float32], heads: NDArray[np.float32]) -> tuple[NDArray[np.float32], np.float32]:
        logits = head_logits((shares @ coarse).reshape(-1, *layer.shape[1:]), heads)
        label_index = np.broadcast_to(labels[np.newaxis, :, np.newaxis], (*logits.shape[:2], 1))
        label_logits = np.take_along_axis(logits, label_index, 2)[:, :, 0]
        scale = np.abs(logits).max()
        np.put_along_axis(logits, label_index, -np.inf, 2)
        return label_logits - logits.max(axis=2), scale

    return margins


class _LayeredWorth:
    """The worth function for a model whose first layer is linear in its parameters.

    Args:
        layer: float64[n, M, h], the first layer of each candidate.
        head: float64[n, H], the remaining parameters.
        head_logits: computes logits from a layer and a head.
        labels: int64[M].
        margins: computes margins, with rounding errors.
    """

    def __init__(
        self, layer: Floats, head: Floats, head_logits: _HeadLogits, labels: NDArray[np.int64], margins: _Margins
    ) -> None:
        self._layer, self._head, self._head_logits, self._labels = layer, head, head_logits, labels
        self._margins = margins
        self._rows = max(1, _BATCH_VALUES // max(1, layer[0].size))

    def __call__(self, masks: NDArray[np.int64]) -> Floats:
        values, non_empty = np.zeros(len(masks)), np.flatnonzero(masks)
        for batch in (non_empty[start : start + self._rows] for start in range(0, len(non_empty), self._rows)):
            members = masks[batch, np.newaxis] >> np.arange(len(self._layer)) & 1
            values[batch] = self._correct_predictions(members / members.sum(axis=1, keepdims=True)).mean(axis=1)
        return values

    @np.errstate(over="ignore", invalid="ignore")
    def _correct_predictions(self, shares: Floats) -> NDArray[np.bool_]:
        """Return whether each mean, with weights float64[m, n], predicts each label correctly: bool[m, M]."""
        heads = shares @ self._head
        margin, scale = self._margins(shares.astype(np.float32), heads.astype(np.float32))
        correct: NDArray[np.bool_] = margin > 0
        doubtful = ~(np.abs(margin) > _DOUBTFUL_MARGIN * scale)  # also if a value has overflowed
        rows, columns = np.nonzero(doubtful)
        exact = np.einsum("kn,nkh->kh", shares[rows], self._layer[:, columns])
        winners = self._head_logits(exact[:, np.newaxis], heads[rows])[:, 0].argmax(axis=1)
        correct[rows, columns] = winners == self._labels[columns]
        return correct


def weights_by_mean(gradients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return π_j = max(cos(g_j, ḡ), 0)/Σ, where ḡ is the mean gradient.

    All gradients contribute equally to the mean. As noise drowns out their directions, the weights therefore approach
    equal weights, which average out noise best.

    Args:
        gradients: float64[n,P], the noisy gradients in a neighbourhood, including the agent's own.

    Returns:
        float64[n], non-negative and summing to 1; all equal if no cosine is positive. A zero gradient has weight 0.
    """
    projections = np.maximum(gradients @ gradients.mean(axis=0), 0.0)
    lengths = np.linalg.norm(gradients, axis=1)
    cosines = np.divide(projections, lengths, out=np.zeros_like(projections), where=lengths > 0)
    total = cosines.sum()
    if total == 0:
        return np.full(len(gradients), 1 / len(gradients))
    weights: NDArray[np.float64] = cosines / total
    return weights
