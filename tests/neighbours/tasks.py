"""Tasks in a device's life, in ledgers of any unit and relation, over neighbours in the ledger's sense.

A ledger's unit and relation are the owner's, a task's are the fleet's. What all tasks together print for a unit must
cover what their releases say about it, in a sum of this module's own: each release's distance between the two worlds,
over the variance of its noise.
"""

import math
import random
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from sottovoce.algorithms.family import required_budget
from sottovoce.errors import TaskRefused
from sottovoce.privacy.accounting.events import CellSum, GaussianSum, PureRelease
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import Status
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.vault import Budget, Ledger

from tests.neighbours.cases import Case, empty_vault, list_proved_cases
from tests.neighbours.lives import Life, draw_task_lives, make_arrivals_gradual
from tests.neighbours.pairs import compare_outcomes, record_epsilon, require, start_both
from tests.neighbours.world import Seen, World

_UNITS = ("record", "window", "device")
_DELTA = 1e-5


def play_tasks(unit: str, neighbouring: str, seed: int) -> float:
    """Play one to three tasks on two devices that are neighbours by their ledgers' unit and relation.

    Returns:
        the largest share of a printed ε that the releases cost; 0 if they are equal.

    Raises:
        RequirementViolated: if the ledger prints less than the releases cost, or the worlds behave differently.
    """
    rng = random.Random(seed)
    tasks = _draw_tasks(unit, neighbouring, rng)
    own = replace(tasks[0], unit=unit, neighbouring=neighbouring)
    lives = make_arrivals_gradual(own, seed, draw_task_lives(own, tasks, rng))
    epsilon = rng.choice((1.0, 2.5, 8.0))
    with TemporaryDirectory() as left, TemporaryDirectory() as right:
        worlds = World(seed, Path(left)), World(seed, Path(right))
        for world in worlds:
            world.ledger = Ledger.in_memory("meter-17", Budget(epsilon, _DELTA, unit, neighbouring))
        share = 0.0
        for epoch, (task, life) in enumerate(zip(tasks, lives, strict=True), 1):
            _run_task(worlds, epoch, task, life)
            share = max(share, _check_printed(worlds, unit, epsilon))
        require(worlds[0].charges() == worlds[1].charges(), "the ledgers hold different charges")
    return share


def _draw_tasks(unit: str, neighbouring: str, rng: random.Random) -> list[Case]:
    """Draw proved cases over one device's records, most of them with a unit that the ledger can convert."""
    proved = [case for case in list_proved_cases() if not case.is_of_days]  # whose records have other columns
    convertible = [case for case in proved if _UNITS.index(case.unit) >= _UNITS.index(unit)]
    by_promise = defaultdict(list)
    for case in convertible if rng.random() < 0.9 else proved:
        by_promise[case.unit, case.neighbouring].append(case)
    promises = [rng.choice(sorted(by_promise)) for _ in range(rng.choice((1, 1, 2, 3)))]
    tasks = []
    for promise in promises:
        by_learner = defaultdict(list)
        for case in by_promise[promise]:
            by_learner[dict(case.learner)["name"]].append(case)
        tasks.append(rng.choice(by_learner[rng.choice(sorted(by_learner))]))
    return tasks


def _run_task(worlds: tuple[World, World], epoch: int, task: Case, life: Life) -> None:
    config = task.config(**life.changed)
    mandate = Mandate(epoch, required_budget(config))
    for world in worlds:
        assert world.ledger is not None
        try:
            world.ledger.check(empty_vault(task).lifetime, mandate)
        except TaskRefused:  # a device does not take up such a task; this depends on neither world
            return
        world.ledger.take_up(mandate)
    if not start_both(worlds, life, config):
        return
    assert worlds[0].statement is not None
    if worlds[0].statement.status is not Status.PROVED:
        return
    for index, (query, crash) in enumerate(life.queries):
        over = None if life.over is None else life.over[index]
        one, other = (world.ask(query, crash, over) for world in worlds)
        compare_outcomes(one, other)


def _check_printed(worlds: tuple[World, World], unit: str, budget: float) -> float:
    """Check that what each ledger prints for the differing unit covers what was seen of it."""
    share = 0.0
    exact = _seen_epsilon(list(zip(worlds[0].history, worlds[1].history, strict=True)))
    for world in worlds:
        assert world.ledger is not None
        printed = world.ledger.epsilon_spent(EVERY)
        if unit == "window" and (windows := {row.window for row in world.rows if row.differs}):
            printed = world.ledger.epsilon_spent(Units.of(windows))
        require(exact <= printed, f"releases cost ε = {exact:.6g}, and the ledger prints {printed:.6g}")
        require(printed <= budget, f"the ledger prints ε = {printed:.6g} of a budget of {budget:g}")
        share = max(share, exact / printed if printed else 0.0)
    return share


def _seen_epsilon(history: list[tuple[Seen, Seen]]) -> float:
    """Return ε of all complete releases together, from their distances; sampled sums are left out, so a lower bound."""
    mu_squared, pure = Fraction(0), 0.0
    for one, other in history:
        if one.refused is not None or one.charged is None:
            continue
        if one.record != other.record:
            pure += record_epsilon(one)
        if one.exact is None or other.exact is None:
            continue
        distances = [abs(int(number)) for number in one.exact - other.exact]
        match one.charged:
            case GaussianSum(sigma=sigma):
                mu_squared += Fraction(sum(number**2 for number in distances), sigma**2)
            case CellSum(share=sigma, honest=honest):
                mu_squared += Fraction(sum(number**2 for number in distances), honest * sigma**2)
            case PureRelease(scale=scale, copies=copies, features=features, law=law):
                numbers = [distances[copy * features : (copy + 1) * features] for copy in range(copies)]
                pure += sum(map(max if law == "joint" else sum, zip(*numbers, strict=True))) / scale
    return gaussian_epsilon(math.sqrt(mu_squared)) + pure * (1 - 1e-12)


def gaussian_epsilon(mu: float) -> float:
    """Return ε of a Gaussian release at this module's δ, by Balle & Wang 2018, Theorem 8, rounded down."""
    if mu == 0:
        return 0.0

    def excess(epsilon: float) -> float:
        far = math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))
        return float(ndtr(mu / 2 - epsilon / mu) - far - _DELTA)

    return 0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, mu * mu / 2 + 10 * mu) * (1 - 1e-9)
