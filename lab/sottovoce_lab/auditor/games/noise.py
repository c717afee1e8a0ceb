"""A game that checks whether the noise around the stated sum has the stated law and scale, for any records."""

import numpy as np

from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.p_values import normal_scale
from sottovoce_lab.auditor.subject import Subject, observe_new_device
from sottovoce_lab.auditor.targets.sums import GaussianSums


def play_noise_game(subject: Subject, name: str, alpha: float) -> Finding:
    """Run one device per world and apply a Bonferroni correction to the p-values.

    The game also detects sums that are not clipped as stated, or are clipped per batch instead of per record, because
    such a release is not centred on the stated sum.

    A device releases only one count of its records, too few numbers for a test, so the counts in all worlds are tested
    together.

    Args:
        subject: the audited subject.
        name: the game's name.
        alpha: the game's share of the significance level.
    """
    p_values: dict[str, float] = {}
    numbers = 0
    counts: list[float] = []
    for world, records in subject.worlds().items():
        observed_run = observe_new_device(subject, records)
        numbers += observed_run.values.size + observed_run.record_sum.size
        p_values |= {f"{world}: {test}": p for test, p in subject.p_values(records, observed_run).items()}
        if (
            isinstance(subject, GaussianSums)
            and (deviation := subject.count_deviation(records, observed_run)) is not None
        ):
            counts.append(deviation)
    if counts:
        p_values["all worlds: count"] = normal_scale(np.array(counts))
    worst = min(p_values, key=lambda test: p_values[test])
    p = min(1.0, p_values[worst] * len(p_values))
    facts: dict[str, float | int | str] = {"tests": len(p_values), "least_likely": worst}
    question = "does the noise have the stated law for any records?"
    return Finding(name, question, numbers, facts, p_value=p, refuted=p <= alpha)
