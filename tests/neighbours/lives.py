"""Lives of two neighbouring worlds: their files, settings, queries and crashes."""

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sottovoce.algorithms.assembly import build_family
from sottovoce.kernels.decentralised.centring import LONGEST_MEAN
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.terms.gradients import GradientTerms, NormalisedTerms, RecordSum
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms
from sottovoce_papers.jin_2023.private.terms import ChainTerms

from tests.neighbours.cases import CLASSES, WINDOWS, Case
from tests.neighbours.rows import Row
from tests.neighbours.world import CRASHES

_SCALES = (0.0, 1e-9, 0.3, 1.0, 50.0, 1e9)
_SMALL = {"batch": (2, 3, 5, 8, 11), "expected_records": (8, 16, 24, 40), "passes": (1, 2), "steps": (1, 3, 48),
          "transform": ("none", "unit", "centred-unit")}  # fmt: skip


@dataclass
class Life:
    """Life of both devices from one start to the next.

    Attributes:
        sides: the file of each world.
        changed: settings that differ from the case's own.
        queries: the queries, each with the step after which the device dies while answering, if it does.
        over: the last finished window at each query, by the device's clock; None if records are not followed.
    """

    sides: tuple[list[Row], list[Row]]
    changed: dict[str, Any]
    queries: list[tuple[Query, str | None]]
    over: list[int | None] | None = None


def draw_task_lives(own: Case, tasks: list[Case], rng: random.Random) -> list[Life]:
    """Draw one life for each task of two devices that are neighbours by the unit and relation of `own`."""
    file, left_rows, right_rows = _draw_files(own, rng)
    if rng.random() < 0.5:
        file, left_rows, right_rows = _oppose(own, file, left_rows, right_rows, rng)
    lives = []
    for number, task in enumerate(tasks):
        if number:
            file = _edit_file(own, file, [*left_rows, *right_rows], rng)
        left, right = _build_sides(file, left_rows, right_rows)
        changed = _accepted_changes(task, {"transform": "none"} if rng.random() < 0.7 else {})
        lives.append(Life((left, right), changed, _draw_queries(task, changed, len(left), rng)))
    return lives


def draw_lives(case: Case, rng: random.Random) -> list[Life]:
    """Draw one to four lives of two neighbouring devices."""
    file, left_rows, right_rows = _draw_files(case, rng)
    results = []
    for number in range(rng.choice((1, 1, 2, 2, 3, 4))):
        changed: dict[str, Any] = {"transform": "none"} if rng.random() < 0.5 else {}
        if number and rng.random() < 0.7:
            for key in rng.sample(list(_SMALL), rng.randint(1, 2)):
                changed[key] = rng.choice(_SMALL[key])
        changed = _accepted_changes(case, changed)
        if number:
            file = _edit_file(case, file, [*left_rows, *right_rows], rng)
        left, right = _build_sides(file, left_rows, right_rows)
        if number == 0 and case.neighbouring == "add-remove":
            rng.shuffle(right)
        results.append(Life((left, right), changed, _draw_queries(case, changed, len(left), rng)))
    return results


def repeat_queries(case: Case, seed: int, lives: list[Life]) -> list[Life]:
    """Repeat an earlier query now and then, also after a restart; a round of a secure sum is never requested again."""
    if case.config().cell is not None:
        return lives
    rng, earlier = random.Random(seed + 2**33), []
    for life in lives:
        earlier += [query for query, _ in life.queries]
        if rng.random() < 0.4:
            life.queries.append((rng.choice(earlier), None))
    return lives


def make_arrivals_gradual(case: Case, seed: int, lives: list[Life]) -> list[Life]:
    """For every other seed, let records arrive window by window, unless the unit is a record.

    The device's clock is occasionally set back or ahead, or unavailable.
    """
    if case.unit == "record" or seed % 2:
        return lives
    rng, now = random.Random(seed + 2**32), WINDOWS[0] - 1
    if case.is_of_days:
        now = case.windows[0] + rng.choice((100, 300, 364))
    for life in lives:
        life.over = []
        for _ in life.queries:
            now = rng.choice((now, now, now + 1, now + 2, WINDOWS[0] - 1))
            life.over.append(rng.choice((now, now, now, now, now + 400, now - 400, None)))
    return lives


def _draw_files(case: Case, rng: random.Random) -> tuple[list[Row | None], list[Row], list[Row]]:
    """Draw a file that both worlds share, with a gap for each differing record, and each world's records for them."""
    shared: list[Row | None] = [_draw_row(rng, case) for _ in range(rng.choice((0, 1, 4, 12, 23)))]
    if rng.random() < 0.4:  # the differing record alone may have its label
        label = rng.choice((CLASSES - 1, CLASSES - 1, 0))
        shared = [row if row is None else replace(row, label=label) for row in shared]
    window = rng.choice((WINDOWS[0] - 1, *range(WINDOWS[0], WINDOWS[1] + 1)))
    count = 1 if case.unit == "record" else rng.choice((1, 2, 5))
    left_rows = [replace(_draw_row(rng, case), window=window, differs=True) for _ in range(count)]
    if case.is_of_days:
        left_rows = _draw_days(case, rng)
    if case.unit == "device":
        shared = []
    if case.unit == "window":
        shared = [row for row in shared if row is not None and row.window != window]
    if case.neighbouring == "add-remove":
        right_rows: list[Row] = []
    else:
        right_rows = [_draw_opposite(row, rng, case) for row in left_rows]
    if rng.random() < 0.4 and shared and case.unit == "record":  # equal records
        twin = replace(left_rows[0], differs=False)
        shared += [twin] * rng.choice((1, 2))
    for _ in left_rows:
        shared.insert(rng.randint(0, len(shared)), None)
    if case.neighbouring == "add-remove" and rng.random() < 0.5:
        left_rows, right_rows = right_rows, left_rows
    return shared, left_rows, right_rows


def _oppose(
    case: Case, file: list[Row | None], left_rows: list[Row], right_rows: list[Row], rng: random.Random
) -> tuple[list[Row | None], list[Row], list[Row]]:
    """Move all rows to one line, those that differ far out and against the others: a device's vector turns round."""
    line = [rng.choice((-1.0, 1.0)) for _ in range(case.features)]

    def place(row: Row, scale: float) -> Row:
        return replace(row, features=tuple(scale * number for number in line), label=0)

    shared = [None if row is None else place(row, 1e3) for row in file]
    return (
        shared,
        [place(row, -1e9) for row in left_rows],
        [place(row, 1e9 if left_rows else -1e9) for row in right_rows],
    )


def _draw_opposite(row: Row, rng: random.Random, case: Case) -> Row:
    """Draw another record, usually as far away as possible."""
    match rng.choice(("label", "sign", "new", "zero")):
        case "label":
            return replace(row, label=(row.label + 1) % CLASSES)
        case "sign":
            return replace(row, features=tuple(0.0 - number for number in row.features))
        case "zero":
            return replace(row, features=(0.0,) * case.features)
    return replace(_draw_row(rng, case), window=row.window, differs=True)


def _draw_row(rng: random.Random, case: Case) -> Row:
    scale, axis = rng.choice(_SCALES), rng.randrange(case.features)
    if rng.random() < 0.3:
        features = tuple(scale if index == axis else 0.0 for index in range(case.features))
    else:
        features = tuple(scale * rng.gauss(0, 1) + 0.0 for _ in range(case.features))
    first, last = case.windows
    return Row(features, rng.randrange(CLASSES), rng.randint(first - 1, last + 1))


def _draw_days(case: Case, rng: random.Random) -> list[Row]:
    """Draw the days of a home: too few for a product, a part of the year, or a year with a regular habit."""
    first, last = case.windows
    days = sorted(rng.sample(range(first, last + 1), rng.choice((5, 28, 90, 200))))
    if rng.random() < 0.5:
        return [replace(_draw_row(rng, case), window=day, differs=True) for day in days]
    habit = [rng.choice((0.0, 0.1, 4.0)) for _ in range(case.features)]
    return [Row(tuple(rng.choice((0.5, 1.0)) * load for load in habit), 0, day, differs=True) for day in days]


def _build_sides(file: list[Row | None], left_rows: list[Row], right_rows: list[Row]) -> tuple[list[Row], list[Row]]:
    sides = []
    for differing in (left_rows, right_rows):
        rest = iter(differing)
        sides.append([row for entry in file if (row := next(rest, None) if entry is None else entry) is not None])
    return sides[0], sides[1]


def _edit_file(case: Case, file: list[Row | None], differing: list[Row], rng: random.Random) -> list[Row | None]:
    """Return a later version of a file, with records added, removed, edited or moved.

    Records are added before, between and behind others. Now and then the differing record is gone, or another record is
    edited to the differing record of one world.
    """
    if case.unit == "device":
        return file
    window = None
    if case.unit == "window":
        windows = {row.window for row in file if row is not None}
        window = rng.choice(sorted(windows)) if windows else None
    edited_file = list(file)
    for _ in range(rng.choice((0, 1, 3))):
        match rng.choice(("first", "anywhere", "remove", "edit", "shuffle", "gone")):
            case "first" if case.unit == "record":
                edited_file[:0] = [_draw_row(rng, case) for _ in range(rng.choice((1, 10)))]
            case "anywhere" if case.unit == "record" or window is not None:
                new = _draw_row(rng, case)
                new = new if window is None else replace(new, window=window)
                edited_file.insert(rng.randint(0, len(edited_file)), new)
            case "remove" if any(row is not None for row in edited_file):
                del edited_file[rng.choice([index for index, row in enumerate(edited_file) if row is not None])]
            case "edit" if case.unit == "record" and any(row is not None for row in edited_file):
                twin = replace(rng.choice(differing), differs=False)
                new = rng.choice((_draw_row(rng, case), _draw_row(rng, case), twin))
                edited_file[rng.choice([index for index, row in enumerate(edited_file) if row is not None])] = new
            case "shuffle":
                rng.shuffle(edited_file)
            case "gone" if case.unit == "record" and rng.random() < 0.2:
                edited_row = replace(rng.choice(differing), differs=False)
                edited_file = [row or edited_row for row in edited_file if row is not None or rng.random() < 0.5]
    return edited_file


def _accepted_changes(case: Case, changed: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that the configuration accepts."""
    try:
        build_family(case.config(**changed))
    except Exception as error:
        if type(error).__module__ != "sottovoce.errors":
            raise
        return {}
    return changed


def _draw_queries(
    case: Case, changed: dict[str, Any], record_count: int, rng: random.Random
) -> list[tuple[Query, str | None]]:
    """Draw queries for slots in any order, some twice, at arbitrary points."""
    family = build_family(case.config(**changed))
    terms: Any = family.terms
    size, kind, slots = _query_space(terms, family.model.size, record_count)
    queries = []
    chosen_slots = [rng.choice(slots) for _ in range(rng.choice((1, 2, 4, 7)))]
    if getattr(terms, "cell", None) is not None:  # a round of a secure sum is never requested again
        first = rng.randrange(2**30)
        chosen_slots = [first + index for index in range(len(chosen_slots))]
    for slot in chosen_slots:
        point = np.array([rng.choice((0.0, 1.0, 30.0)) * rng.gauss(0, 1) for _ in range(size)])
        if isinstance(terms, NormalisedTerms):
            point = np.append(point * rng.choice((0.0, 1.0)), rng.choice((0.05, 0.5, 7.0)))
        elif rng.random() < 0.5:
            point *= 0.0
        query = Query(terms.learner, kind, slot, point)
        if (records := _record_sum(terms)) is not None:
            query = _draw_centred_query(query, records.columns - 1, rng, in_cell=isinstance(terms, CellGradientTerms))
        queries.append((query, rng.choice((None,) * 12 + CRASHES)))
    return queries


def _record_sum(terms: Any) -> RecordSum | None:
    sums = terms.sums if isinstance(terms, NormalisedTerms) else terms
    return sums.records if isinstance(sums, GradientTerms | CellGradientTerms) else None


def _draw_centred_query(query: Query, columns: int, rng: random.Random, *, in_cell: bool) -> Query:
    """Draw the query for the sum of records, or this query about records centred by an arbitrary mean."""
    is_sum = rng.random() < 0.3
    if is_sum and not in_cell:
        return replace(query, kind="mean", slot=0, point=np.empty(0))
    mean = np.array([rng.gauss(0, 1) for _ in range(columns)])
    mean *= rng.choice((0.0, 0.5, LONGEST_MEAN)) / max(float(np.linalg.norm(mean)), 1e-9)
    kind = [0.0 if is_sum else 1.0] if in_cell else []
    return replace(query, point=np.concatenate([query.point, mean, kind]))


def _query_space(terms: Any, size: int, record_count: int) -> tuple[int, str, list[int]]:
    """Return the number of coordinates of a point, the kind of query, and the slots worth requesting."""
    match terms:
        case GradientTerms():
            blocks = terms.of // terms.batch if terms.sampling == "blocks" else 1
            return size, "gradient", list(range(min(30, terms.releases * max(1, blocks) + 1)))
        case NormalisedTerms():
            return size, "gradient", list(range(min(30, terms.sums.releases + 1)))
        case ChainTerms():
            return (
                2 * size,
                "chain",
                list(range(max(1, terms.passes * (record_count // (terms.batch * terms.period))) + 1)),
            )
        case RecordTerms():
            return 0, "record", list(range(record_count + 2))
        case WalkTerms():
            return size, "gradient", list(range(len(terms.epsilons) + 1))
        case MeanTerms():
            return 0, "mean", [0, 1]
        case CellGradientTerms():
            return size, "gradient", [0, 1, 2]
    raise NotImplementedError(f"no queries are known for {type(terms).__name__}: add them to this function")
