"""Draws that are functions of real uniform numbers, exact although every computation has a finite precision.

A draw is a program that reads uniform real numbers from a tape and decides: keep or reject, round down or up. It
computes with their first bits, in decimals; every computed value lies within a margin of the value that the numbers'
infinitely many bits would give. A decision further from its edge than this margin is the decision that the real numbers
would have led to. A decision closer to its edge is `Undecided`: then the program runs again, from its start, over the
same numbers with more of their bits. So the law of the output is that of the real program, with no error at all.

The margins are proved in docs/decisions/0009-record-releases.md.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import TypeVar

from sottovoce.vault.noise import NoiseSource

T = TypeVar("T")

_WORDS = 3  # words of 64 bits, for each number and level
_DIGITS = 64  # digits of each computation, for each level; 3 words are 57.8 digits
_MARGIN = 30  # decimals to which a computed quantity is right, for each level
_SMALL = 8  # decimals of a number too small to divide by, for each level
_FETCHED = 64  # numbers fetched from the noise source at once


class Undecided(Exception):
    """Signal that a decision is closer to its edge than the available precision."""


class Tape:
    """Tape of independent uniform real numbers in (0, 1), each known to as many bits as were needed so far."""

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise
        self._known: list[tuple[int, int]] = []  # the first bits of each number, and their count
        self._place = 0
        self.level = 1

    @property
    def margin(self) -> Decimal:
        """Distance from the edge within which a decision is open."""
        return Decimal(10) ** (-_MARGIN * self.level)

    def uniform(self) -> Decimal:
        """Return the next number: the middle of the interval in which it is known to lie, of length 2^(-192 level)."""
        if self._place == len(self._known):
            self._known += [(number, 64 * _WORDS) for number in self._fetched(_WORDS, _FETCHED)]
        number, bits = self._known[self._place]
        if bits < 64 * _WORDS * self.level:
            more = _WORDS * self.level - bits // 64
            number, bits = number << 64 * more | self._fetched(more, 1)[0], bits + 64 * more
            self._known[self._place] = number, bits
        self._place += 1
        return (2 * Decimal(number) + 1) / (1 << bits + 1)

    def is_below(self, number: Decimal, edge: Decimal) -> bool:
        """Return whether number < edge."""
        if abs(number - edge) <= self.margin:
            raise Undecided
        return number < edge

    def divisor(self, number: Decimal) -> Decimal:
        """Return a number from 0 up if it is large enough to divide by, or to take its root or its logarithm."""
        if number < Decimal(10) ** (-_SMALL * self.level):
            raise Undecided
        return number

    def rounded(self, number: Decimal, exponent: int) -> int:
        """Return number / 2^exponent to the nearest integer, exponent ≤ 0."""
        steps = number * (1 << -exponent)
        nearest = steps.to_integral_value(ROUND_HALF_EVEN)
        if abs(steps - nearest) >= Decimal("0.5") - self.margin * (1 << -exponent):
            raise Undecided
        return int(nearest)

    def rewind(self) -> None:
        """Start again, over the numbers drawn before and with more of their bits."""
        self._place = 0
        self.level += 1

    def _fetched(self, words: int, count: int) -> list[int]:
        raw = self._noise.words(words * count).astype("<u8").tobytes()
        return [int.from_bytes(raw[i : i + 8 * words], "little") for i in range(0, len(raw), 8 * words)]


def draw_exactly(draw: Callable[[Tape], T], noise: NoiseSource) -> T:
    """Return the result of `draw` on real numbers; `draw` must decide by the tape's methods alone."""
    tape = Tape(noise)
    while True:
        try:
            with localcontext(Context(prec=_DIGITS * tape.level)):
                return draw(tape)
        except Undecided:
            tape.rewind()
