"""A game that checks whether a release's low bits reveal anything, as a float's low bits would (Mironov 2012)."""

import numpy as np

from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.p_values import uniform_low_bits
from sottovoce_lab.auditor.subject import Subject, observe_new_device

_BITS = 4


def play_low_bits_game(subject: Subject, grid: float, rng: np.random.Generator, alpha: float) -> Finding:
    """Check that releases lie on the public grid and that their lowest four bits are uniform.

    Noise drawn in floating point and then rounded to the grid rightly passes this check, because only digits finer than
    the grid can leak.
    """
    values = observe_new_device(subject, subject.canary_records(rng.random(subject.canaries) < 0.5)).values
    steps = values[:, 1:] / grid  # the first coordinate of a record may be a label
    off_grid = int((steps != np.rint(steps)).sum())
    p = 0.0 if off_grid else uniform_low_bits(np.rint(steps).astype(np.int64), _BITS)
    question = "are releases on the public grid, with uniform low bits?"
    return Finding("low bits", question, steps.size, {"off_the_grid": off_grid}, p_value=p, refuted=p <= alpha)
