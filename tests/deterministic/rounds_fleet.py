"""Fleets that learn in rounds: real cores, learners and vaults on a few records each, without noise."""

import random
from collections.abc import Sequence

import numpy as np
from sottovoce.algorithms.rounds.public import RoundAlgorithm, Rounds, RoundsSchedule
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device
from sottovoce_papers.pdsl_2025.public.cross import AnswerRotation
from sottovoce_papers.pdsl_2025.public.dp_cga import DpCga
from sottovoce_papers.pdsl_2025.public.dp_dpsgd import DpDpsgd
from sottovoce_papers.pdsl_2025.public.dp_net_fleet import DpNetFleet
from sottovoce_papers.pdsl_2025.public.muffliato import Muffliato
from sottovoce_papers.pdsl_2025.public.pdsl import Pdsl
from sottovoce_papers.pdsl_2025.public.weighing import GradientWeighting
from sottovoce_papers.pdsl_2025.shapley import AccuracyGame

from tests.deterministic.fleet import FailingStore

KERNEL = Softmax(4, 3)
CLIP = 8.0  # longer than any gradient of these records
RECORDS = 5
RATE, MOMENTUM = 0.7, 0.6


def draw_records(seed: int, count: int = RECORDS) -> Records:
    """Draw records in three overlapping clouds in four dimensions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    return Records(rng.normal(size=(count, 4)) + np.eye(3, 4)[labels], labels)


def algorithm(name: str, *, answers: int = 9) -> RoundAlgorithm:
    """Make one of the five algorithms, with exact Shapley values on 40 public records."""
    public = draw_records(99, 40)
    match name:
        case "pdsl":
            game = AccuracyGame(KERNEL, public.features, public.labels)
            return Pdsl(AnswerRotation(answers), GradientWeighting("exact", game), MOMENTUM)
        case "dp-cga":
            return DpCga(AnswerRotation(answers), MOMENTUM)
        case "dp-dpsgd":
            return DpDpsgd()
        case "muffliato":
            return Muffliato((0.0, 0.2, 0.3))
        case _:
            return DpNetFleet(2)


def fleet(
    peers: Sequence[Sequence[int]], name: str = "pdsl", *, steps: int = 6, answers: int = 9, power_cuts: float = 0.0
) -> list[Device]:
    """Make one device for each row of peers, with the next five records, over which all its gradients are means."""
    fate = random.Random(1)
    names = [f"device-{i}" for i in range(len(peers))]
    devices = []
    for i, row in enumerate(peers):
        chosen = algorithm(name, answers=answers)
        schedule = RoundsSchedule(name, KERNEL.size, 1.0, steps, RATE, 0.0, RECORDS, 3.0)
        learner = Rounds(schedule, chosen, KERNEL.initial(0))
        vault = build(
            records=draw_records(i),
            kernel=KERNEL,
            terms=GradientTerms(name, steps * chosen.questions, CLIP),
            ledger=Ledger.in_memory(names[i], Budget(None, 1e-5, "record", "add-remove")),
            noise=SeededNoise(i),
        )
        store = FailingStore(names[i], learner.initial_state(), fate, power_cuts)
        devices.append(Device(names[i], learner, store, vault, tuple(names[j] for j in row)))
    return devices
