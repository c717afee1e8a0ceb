"""Game: does the noise have the stated law and scale around the stated sum, whatever the records are?"""

from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.subject import Subject, watch_new_device


def noise(subject: Subject, name: str, alpha: float) -> Finding:
    """Run one device for each world, and apply a Bonferroni correction to the p-values.

    This also finds a sum that is not bounded as stated, or a bound on the whole batch instead of on each record: such
    a release is not centred on the stated sum.

    Args:
        subject: the audited subject.
        name: name of the game.
        alpha: the game's share of the significance.
    """
    doubts: dict[str, float] = {}
    numbers = 0
    for world, records in subject.worlds().items():
        sighting = watch_new_device(subject, records)
        numbers += sighting.values.size
        doubts |= {f"{world}: {what}": p for what, p in subject.p_values(records, sighting).items()}
    worst = min(doubts, key=lambda doubt: doubts[doubt])
    p = min(1.0, doubts[worst] * len(doubts))
    facts: dict[str, float | int | str] = {"tests": len(doubts), "least_likely": worst}
    question = "is the noise of the stated law, whatever the records are?"
    return Finding(name, question, numbers, facts, p_value=p, refuted=p <= alpha)
