"""Sampling of the height t = ⟨V, u⟩ of a uniform point on a cap {t ≥ γ} of the unit sphere of ℝᴰ, D ≥ 2."""

from decimal import Decimal

from sottovoce.perturbation import Cap
from sottovoce.vault.lazy_reals import Tape


def cap_height(cap: Cap, tape: Tape) -> tuple[Decimal, Decimal]:
    """Draw t and return it together with √(1 - t²).

    With t = tanh v, the density (1 - t²)^((D-3)/2) of t becomes sech(v)^(D-1). Its logarithm is concave for every D and
    therefore bounded by any of its tangents: v is proposed from a shifted exponential law and accepted with a
    probability equal to the ratio of the two densities. The tangent touches at γ, or at 1/√D if γ is smaller. More than
    half of all proposals are accepted.
    """
    power = Decimal(cap.dimension - 1)
    edge, touch = _artanh(Decimal(cap.gamma)), Decimal(max(cap.gamma, cap.dimension**-0.5))
    peak = ((1 - touch) * (1 + touch)).ln() / 2 + touch * _artanh(touch)
    while True:
        v = edge - tape.divisor(tape.uniform()).ln() / (power * touch)
        growth = v.exp()
        cosine = (growth + 1 / growth) / 2
        if tape.is_below(tape.divisor(tape.uniform()).ln(), power * (touch * v - cosine.ln() - peak)):
            return (growth - 1 / growth) / 2 / cosine, 1 / cosine


def _artanh(t: Decimal) -> Decimal:
    return ((1 + t) / (1 - t)).ln() / 2
