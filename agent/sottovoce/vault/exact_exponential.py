"""A scaled exponential function on integers, rounded down exactly."""

from decimal import Context, Decimal


def floor_scaled_exp(numerator: int, denominator: int, bits: int) -> int:
    """Return floor(2^bits · exp(-numerator/denominator)) for denominator > 0, 0 ≤ numerator < 1000 denominator."""
    if numerator == 0:
        return 1 << bits
    digits = bits // 3 + 30
    while True:
        context = Context(prec=digits)
        value = context.exp(context.divide(Decimal(-numerator), Decimal(denominator)))
        scaled = context.multiply(value, Decimal(1 << bits))
        slack = context.scaleb(scaled, 4 - digits)
        low, high = int(context.subtract(scaled, slack)), int(context.add(scaled, slack))
        if low == high:
            return low
        digits *= 2
