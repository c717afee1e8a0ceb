"""Simulate record releases in ordinary floats, with the same distributions, for many rows at a time; not for devices.

A float's low bits reveal the noise that was added to it, and the generator is seeded, so this noise protects no one.
"""

import math

import numpy as np
from numpy.typing import NDArray
from sottovoce.privacy.perturbation import (
    Cap,
    Exact,
    LabelledPrivUnit,
    Laplace,
    LaplaceCopies,
    PrivUnit,
    RandomisedLabel,
    Scheme,
)

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]
Values = NDArray[np.int64]

_CHUNK_NUMBERS = 2**21  # values drawn at a time: 16 MiB of float64


def simulate(scheme: Scheme, features: Rows, labels: Labels, generator: "np.random.Generator") -> Values:
    """Release each row once, using bounded memory apart from the result.

    Args:
        scheme: scheme by which each record is released.
        features: float64[n, d], finite.
        labels: int64[n], 0 … c - 1.
        generator: source of the noise.

    Returns:
        int64[n, width], distributed like the releases of the owners' vaults.
    """
    values = np.empty((len(labels), scheme.width), dtype=np.int64)
    rows = max(1, _CHUNK_NUMBERS // scheme.width)
    for start in range(0, len(labels), rows):
        chunk = slice(start, start + rows)
        values[chunk] = _simulate_part(scheme, features[chunk], labels[chunk], generator)
    return values


def _simulate_part(scheme: Scheme, features: Rows, labels: Labels, generator: "np.random.Generator") -> Values:
    match scheme:
        case LaplaceCopies() | Laplace():
            return _add_laplace(scheme, features, labels, generator)
        case PrivUnit():
            blocks, signs = _blocks_and_signs(scheme.classes, labels)
            units = _scale_to_unit(features) * signs[:, np.newaxis]
            return _round_to_grid(_draw_on_sphere(scheme.cap, scheme.copies, units, blocks, generator), scheme.exponent)
        case LabelledPrivUnit():
            points = _draw_on_sphere(scheme.cap, 1, _scale_to_unit(features), np.zeros_like(labels), generator)
            return np.hstack(
                [_randomise_labels(scheme.label, labels, generator), _round_to_grid(points, scheme.exponent)]
            )
        case Exact():
            return np.hstack([labels[:, np.newaxis], _round_to_grid(_scale_to_unit(features), scheme.exponent)])
    raise TypeError(f"there is no simulation for scheme `{scheme.name}`: add one here")


def _add_laplace(
    scheme: LaplaceCopies | Laplace, features: Rows, labels: Labels, generator: "np.random.Generator"
) -> Values:
    lengths = np.abs(features).sum(axis=1, keepdims=True)
    units = np.trunc(_divide(features, lengths) * scheme.unit)
    noise = generator.laplace(scale=scheme.scale, size=(len(labels), scheme.copies, scheme.features))
    np.rint(noise, out=noise)
    if isinstance(scheme, LaplaceCopies) and scheme.copies > 1:
        noise -= units[:, np.newaxis]
        noise[np.arange(len(labels)), labels] += 2 * units
    else:
        blocks, signs = _blocks_and_signs(scheme.classes, labels)
        noise[np.arange(len(labels)), blocks] += units * signs[:, np.newaxis]
    return noise.reshape(len(labels), scheme.width).astype(np.int64)


def _blocks_and_signs(classes: int, labels: Labels) -> tuple[Labels, Rows]:
    """Return the block and the sign of x in the tensor for each label."""
    if classes == 2:
        return np.zeros_like(labels), np.where(labels == 1, 1.0, -1.0)
    return labels, np.ones(len(labels))


def _scale_to_unit(features: Rows) -> Rows:
    """Scale each row to an L2 norm of 1; zero rows stay zero."""
    largest = _divide(features, np.abs(features).max(axis=1, keepdims=True))
    return _divide(largest, np.sqrt((largest * largest).sum(axis=1, keepdims=True)))


def _divide(rows: Rows, divisors: Rows) -> Rows:
    quotients: Rows = np.divide(rows, divisors, out=np.zeros_like(rows), where=divisors > 0)
    return quotients


def _round_to_grid(points: NDArray[np.floating], exponent: int) -> Values:
    return np.rint(points * points.dtype.type(2.0**-exponent)).astype(np.int64)


def _draw_on_sphere(
    cap: Cap, blocks: int, units: Rows, block_indices: Labels, generator: "np.random.Generator"
) -> NDArray[np.float32]:
    """Apply PrivUnit to each row of `units`, in its block of a zero vector, float32[n, D]; uniform for zero rows."""
    count, width = len(units), blocks * units.shape[1]
    rows = np.arange(count)
    points = generator.standard_normal((count, blocks, units.shape[1]), dtype=np.float32)
    squares = np.einsum("nbd,nbd->n", points, points, dtype=np.float64)
    dot = (points[rows, block_indices] * units).sum(axis=1)
    inside = generator.random(count) < cap.probability
    t = np.where(inside, 1.0, -1.0) if width == 1 else _draw_heights(cap, inside, generator)
    orthogonal = np.sqrt(np.maximum(squares - dot * dot, 1e-30))
    is_zero = ~units.any(axis=1)
    scale = np.where(is_zero, 1 / np.sqrt(squares), np.sqrt(np.maximum(1 - t * t, 0.0)) / orthogonal)
    points *= scale.astype(np.float32)[:, np.newaxis, np.newaxis]
    points[rows, block_indices] += (np.where(is_zero, 0.0, t - scale * dot)[:, np.newaxis] * units).astype(np.float32)
    return points.reshape(count, width)


def _draw_heights(cap: Cap, inside: NDArray[np.bool_], generator: "np.random.Generator") -> Rows:
    """Draw the heights t = ⟨V, u⟩, float64[n], inside or outside the cap, by rejection sampling; D ≥ 2."""
    t = np.empty(len(inside))
    for mask, draw in ((inside, _draw_on_cap), (~inside, _draw_off_cap)):
        pending = np.flatnonzero(mask)
        while len(pending):
            heights, accepted = draw(cap, len(pending), generator)
            t[pending[accepted]] = heights[accepted]
            pending = pending[~accepted]
    return t


def _draw_off_cap(cap: Cap, count: int, generator: "np.random.Generator") -> tuple[Rows, NDArray[np.bool_]]:
    half = (cap.dimension - 1) / 2
    t = 2 * generator.beta(half, half, count) - 1
    return t, t < cap.gamma


def _draw_on_cap(cap: Cap, count: int, generator: "np.random.Generator") -> tuple[Rows, NDArray[np.bool_]]:
    """Propose heights inside the cap, and return whether each is accepted; see `mechanisms.samplers.sphere`."""
    power, touch = cap.dimension - 1, max(cap.gamma, cap.dimension**-0.5)
    v = math.atanh(cap.gamma) + generator.standard_exponential(count) / (power * touch)
    threshold = power * (
        np.log(np.cosh(v)) + 0.5 * math.log((1 - touch) * (1 + touch)) - touch * (v - math.atanh(touch))
    )
    return np.tanh(v), generator.standard_exponential(count) > threshold


def _randomise_labels(label: RandomisedLabel, labels: Labels, generator: "np.random.Generator") -> Values:
    """Apply randomised response to each label, int64[n, 1]."""
    draws = generator.integers(0, label.total, len(labels))
    wrong_labels = (draws - label.true_weight) // label.other_weight
    answers = np.where(draws < label.true_weight, labels, wrong_labels + (wrong_labels >= labels))
    return answers[:, np.newaxis]
