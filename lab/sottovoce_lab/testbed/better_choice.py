"""Choices that are likely to make a run more accurate, by public facts that are known before it starts."""

import math

from sottovoce.config import CellSection
from sottovoce.data import Bounds
from sottovoce.learning.registry import ALGORITHMS, DEFAULT
from sottovoce.learning.settings import GradientSettings

from sottovoce_lab.testbed.plan import Plan

_MIN_SIDE = 14  # a square image has at least this side; smaller squares are more often tables with a square width
_HOG_SIDE = 4  # the squares of `hog` with which MNIST was measured (docs/reference/data.md)


def best_learner(agents: int) -> tuple[str, str]:
    """Return the learner that classifies best in a fleet of this size, and why (docs/reference/learners.md)."""
    secure_sums = next(
        name for name, algorithm in ALGORITHMS.items() if algorithm.secure_sums == "always" and algorithm.predicts
    )
    if agents >= CellSection().min:
        return secure_sums, (
            f"{agents} devices can form a secure sum, in which one draw of noise protects all of them; if all others "
            "collude against a device, nothing protects it"
        )
    return DEFAULT, (
        f"it learns from every record of every device, and a secure sum needs {CellSection().min} devices, not {agents}"
    )


def better_choices(plan: Plan) -> list[str]:
    """Return a sentence for each choice that would improve a run's accuracy; empty if none is known."""
    options = plan.options
    if plan.classes < 2 or options.is_noiseless or options.fidelity == "paper" or plan.config.unit != "record":
        return []
    choices = []
    name, reason = best_learner(options.agents)
    # At a usual budget, learners without steps along gradient sums are 20 to 45 points behind in `sottovoce advise`.
    is_better = name != DEFAULT or not isinstance(options.learner_settings, GradientSettings)
    if is_better and options.algorithm.predicts and options.learner != name and plan.config.cell is None:
        choices.append(f"--learner {name} is likely to be more accurate: {reason}")
    if plan.transform == "centred-unit" and (transform := _image_transform(plan.features, plan.bounds)) is not None:
        choices.append(
            f"{plan.features} columns with one range look like the pixels of a square image: with "
            f"--set data.transform={transform}, a linear model sees its edges, and is likely to be more accurate"
        )
    return choices


def _image_transform(features: int, bounds: Bounds | None) -> str | None:
    """Return the transform for pixels of a square image with one channel or three, or None if a record is no image."""
    if bounds is None or len({*zip(*(map(float, side) for side in bounds), strict=True)}) != 1:
        return None
    for channels in (1, 3):
        side = math.isqrt(features // channels)
        if side >= _MIN_SIDE and channels * side * side == features:
            if channels == 1 and side % _HOG_SIDE == 0:
                return f"squash(1),hog({_HOG_SIDE}),centre,unit,bias(0.3)"
            return "squash(1),scatter(2),unit,bias(0.3)" if side % 4 == 0 else None
    return None
