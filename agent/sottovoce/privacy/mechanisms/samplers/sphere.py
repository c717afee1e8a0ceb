"""Exact sampling of PrivUnit's point on the unit sphere of ℝᴰ (Bhowmick et al. 2018, Algorithm 1)."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from sottovoce.privacy.mechanisms.samplers.lazy_reals import Tape
from sottovoce.privacy.perturbation import Cap


def cap_height(cap: Cap, tape: Tape) -> tuple[Decimal, Decimal]:
    """Draw t = ⟨V, u⟩ for a point V in the cap around u, and return t together with √(1 - t²).

    With t = tanh v, the density (1 - t²)^((D-3)/2) of t becomes sech(v)^(D-1). Its logarithm is concave for every D and
    therefore bounded by any of its tangents: v is proposed from a shifted exponential law and accepted with a
    probability equal to the ratio of the two densities. The tangent touches at γ, or at 1/√D if γ is smaller. More than
    half of all proposals are accepted.
    """
    power = Decimal(cap.dimension - 1)
    edge, touch = _artanh(Decimal(cap.gamma)), Decimal(max(cap.gamma, cap.dimension**-0.5))
    peak = ((1 - touch) * (1 + touch)).ln() / 2 + touch * _artanh(touch)
    while True:
        v = edge - tape.require_nonzero(tape.uniform()).ln() / (power * touch)
        growth = v.exp()
        cosine = (growth + 1 / growth) / 2
        if tape.is_below(tape.require_nonzero(tape.uniform()).ln(), power * (touch * v - cosine.ln() - peak)):
            return (growth - 1 / growth) / 2 / cosine, 1 / cosine


def _artanh(t: Decimal) -> Decimal:
    return ((1 + t) / (1 - t)).ln() / 2


Point = list[Decimal]


def draw_point(cap: Cap, unit: Sequence[Decimal], offset: int, inside: bool, tape: Tape) -> Point:
    """Draw V uniformly from the cap around u if `inside` is true, and from the rest of the sphere otherwise.

    Args:
        cap: γ and D.
        unit: the coordinates of u, |u| = 1, starting at `offset`; all other coordinates are 0.
        offset: position of `unit` in u.
        inside: drawn by the caller; true with probability p.
        tape: the source of randomness.
    """
    block = slice(offset, offset + len(unit))
    if cap.dimension == 1:
        return [unit[0] if inside else -unit[0]]
    if not inside:
        while True:
            v = draw_uniform_point(cap.dimension, tape)
            if tape.is_below(_product(v[block], unit), Decimal(cap.gamma)):
                return v
    height, radius = cap_height(cap, tape)
    v = draw_direction(cap.dimension, tape)
    along = _product(v[block], unit)
    v[block] = [number - along * coordinate for number, coordinate in zip(v[block], unit, strict=True)]
    stretch = radius / tape.require_nonzero(_length(v))
    v = [stretch * number for number in v]
    v[block] = [number + height * coordinate for number, coordinate in zip(v[block], unit, strict=True)]
    return v


def draw_uniform_point(dimension: int, tape: Tape) -> Point:
    """Draw a point uniformly from the unit sphere of ℝᴰ."""
    v = draw_direction(dimension, tape)
    length = tape.require_nonzero(_length(v))
    return [number / length for number in v]


def draw_direction(dimension: int, tape: Tape) -> Point:
    """Draw a vector of ℝᴰ from a rotation-invariant law.

    A normal vector with 2m coordinates consists of m pairs. The squared lengths of the pairs, divided by their sum, are
    distributed like the spacings of m - 1 uniform numbers, and the angles are uniform and independent of the lengths,
    so no logarithms are needed. For odd D, the last coordinate is dropped.
    """
    cuts = sorted(tape.uniform() for _ in range((dimension + 1) // 2 - 1))
    v: Point = []
    for low, high in pairwise([Decimal(0), *cuts, Decimal(1)]):
        x, y, square = _draw_in_disc(tape)
        stretch = tape.require_nonzero((high - low).sqrt()) / square.sqrt()
        v += [stretch * x, stretch * y]
    return v[:dimension]


def _draw_in_disc(tape: Tape) -> tuple[Decimal, Decimal, Decimal]:
    """Draw a point uniformly from the unit disc; return its coordinates and its squared length."""
    while True:
        x, y = 2 * tape.uniform() - 1, 2 * tape.uniform() - 1
        square = x * x + y * y
        if tape.is_below(square, Decimal(1)):
            return x, y, tape.require_nonzero(square)


def _product(v: Sequence[Decimal], w: Sequence[Decimal]) -> Decimal:
    return sum((x * y for x, y in zip(v, w, strict=True)), Decimal(0))


def _length(v: Sequence[Decimal]) -> Decimal:
    return _product(v, v).sqrt()
