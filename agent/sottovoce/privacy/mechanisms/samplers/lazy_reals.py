"""Exact draws from uniform real numbers, computed in finite precision.

A draw is a program that reads uniform real numbers from a tape and makes decisions: accept or reject, round down or up.
The program computes with the first bits of these numbers, in decimal arithmetic. Every computed value lies within a
margin of the value that the numbers' infinitely many bits would yield. If the distance from a decision's threshold is
larger than this margin, the real numbers would lead to the same decision. If it is smaller, the decision is
`Undecided`, and the program runs again from the start, over the same numbers with more of their bits. The output
therefore has exactly the distribution of the program on real numbers.

The margins are proved in docs/decisions/0009-record-releases.md.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import TypeVar

from sottovoce.privacy.mechanisms.noise import NoiseSource

T = TypeVar("T")

_WORDS = 3  # 64-bit words per number and level
_DIGITS = 64  # digits of precision per level; 3 words are 57.8 digits
_MARGIN_DECIMALS = 30  # decimals to which a computed quantity is correct, per level
_DIVISOR_DECIMALS = 8  # a number that is zero to this many decimals per level is too small to divide by
_BATCH_NUMBERS = 64  # numbers fetched from the noise source at a time


class Undecided(Exception):
    """Signal that a value is closer to a decision's threshold than the available precision can resolve."""


class Tape:
    """A tape of independent uniform real numbers in (0, 1), of which only the bits needed so far have been drawn."""

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise
        self._numbers: list[tuple[int, int]] = []  # the first bits of each number, and their count
        self._index = 0
        self.level = 1

    @property
    def margin(self) -> Decimal:
        """The distance from a threshold within which a decision is undecided."""
        return Decimal(10) ** (-_MARGIN_DECIMALS * self.level)

    def uniform(self) -> Decimal:
        """Return the next number: the midpoint of the interval of length 2^(-192 level) that is known to contain it."""
        if self._index == len(self._numbers):
            self._numbers += [(number, 64 * _WORDS) for number in self._fetch(_WORDS, _BATCH_NUMBERS)]
        number, bits = self._numbers[self._index]
        if bits < 64 * _WORDS * self.level:
            missing = _WORDS * self.level - bits // 64
            number, bits = number << 64 * missing | self._fetch(missing, 1)[0], bits + 64 * missing
            self._numbers[self._index] = number, bits
        self._index += 1
        return (2 * Decimal(number) + 1) / (1 << bits + 1)

    def is_below(self, number: Decimal, threshold: Decimal) -> bool:
        """Return whether number < threshold; raise Undecided if they are too close."""
        if abs(number - threshold) <= self.margin:
            raise Undecided
        return number < threshold

    def require_nonzero(self, number: Decimal) -> Decimal:
        """Return the non-negative `number` if it is safely above 0: a divisor, or the argument of a root or logarithm.

        Otherwise, raise Undecided.
        """
        if number < Decimal(10) ** (-_DIVISOR_DECIMALS * self.level):
            raise Undecided
        return number

    def round_to_grid(self, number: Decimal, exponent: int) -> int:
        """Return number / 2^exponent, rounded to the nearest integer, for exponent ≤ 0; raise Undecided near a tie."""
        steps = number * (1 << -exponent)
        nearest = steps.to_integral_value(ROUND_HALF_EVEN)
        if abs(steps - nearest) >= Decimal("0.5") - self.margin * (1 << -exponent):
            raise Undecided
        return int(nearest)

    def rewind(self) -> None:
        """Restart the tape from its first number, with more bits of each number."""
        self._index = 0
        self.level += 1

    def _fetch(self, words: int, count: int) -> list[int]:
        raw = self._noise.random_words(words * count).astype("<u8").tobytes()
        return [int.from_bytes(raw[i : i + 8 * words], "little") for i in range(0, len(raw), 8 * words)]


def draw_exactly(draw: Callable[[Tape], T], noise: NoiseSource) -> T:
    """Return the result of `draw` on real numbers; `draw` must make all decisions through the tape's methods."""
    tape = Tape(noise)
    while True:
        try:
            with localcontext(Context(prec=_DIGITS * tape.level)):
                return draw(tape)
        except Undecided:
            tape.rewind()
