"""Mutants of sound code: the audit refutes every mutant below, and nothing else.

False alarms: an audit calls a sound target refuted with a probability of 1e-6 at most (`SIGNIFICANCE`), so all the
audits of sound code here, eight of them, fail by chance once in 125,000 runs.

Misses: no audit here is near its threshold, a p-value of 1.4e-7. What decides, for the weakest mutants:

- Scale. A sum of n squared normal numbers, each a quarter of what it should be, has a p-value of
  exp(-(n/2)(ln 4 - 3/4)) = exp(-0.32 n), here with n from 512 (chains) to 2,048: e^-160 or less; that it is as large
  as would be needed to pass, within 6.5 √(2/n) of the right one, has a probability below e^-100. n Laplace numbers at
  half their scale give exp(-n (ln 2 - 1/2)) = exp(-0.19 n), with n = 768 for the walk and 1,536 for records: below
  e^-140.
- Place. A clip that is forgotten moves one number by 25 σ or more: a p-value of e^-300, and a miss when noise takes
  back 19 σ: below 1e-80. A clip that is taken of the batch moves numbers by what the batch happens to be: measured, 9
  of 140 audits of a learner missed it. So up to three are made, all of which miss it once in 3,700 times.
- A cap that is never left: 64 releases of 64 in it, where two in three belong: 3e-10 after Bonferroni, every time.
- Off the grid: each of 4,600 numbers is on it with probability 2^-24.
- Fresh noise, noise where there should be none, silence: certain, unless hundreds of integers coincide.
"""

import pytest
from sottovoce_lab.auditor import audit

from tests.mutations import false_totals, mutants
from tests.mutations.catchers import (
    PINS,
    Catcher,
    calibrated,
    device_noise,
    each_number,
    every_unit,
    extremal,
    fit,
    forged_heads,
    neighbours,
    played,
    printed_totals,
    renumbered_records,
    tasks,
)
from tests.mutations.mutants import Mutant
from tests.neighbours.cases import HIDDEN

pytestmark = pytest.mark.slow

TRIALS, AUDITS = 256, 3

GAUSSIAN, CLIPD2P = ("mechanism", "discrete-gaussian"), ("learner", "clipd2p")
LAPLACE, PRIVUNIT, TWO_PART = ("mechanism", "laplace"), ("mechanism", "privunit"), ("mechanism", "krr-privunit")
WALK, GOLF = ("learner", "gradient-walk"), ("learner", "golf")
CHAIN = ("mechanism", "chain")
CENTRED = neighbours("clipd2p", "record", "add-remove", centre="private")
LONG = {"model": "mlp", "hidden": HIDDEN}
HARMONICS, HARMONICS_IN_A_CELL = "harmonics=1,shape_clip=0.5", "harmonics=1,noise=cell,shape_clip=0.5"

Target = tuple[str, str]

CASES: list[tuple[Mutant, Target, str]] = [
    (mutants.noise_halved, GAUSSIAN, "noise"),
    (mutants.noise_halved, CLIPD2P, "noise"),
    (mutants.noise_halved, LAPLACE, "noise"),
    (mutants.noise_halved, WALK, "noise"),
    (mutants.noise_halved, CHAIN, "noise"),
    (mutants.variance_for_deviation, CLIPD2P, "noise"),
    (mutants.sensitivity_halved, CLIPD2P, "noise"),
    (mutants.sensitivity_halved, LAPLACE, "noise"),
    (mutants.sensitivity_halved, WALK, "noise"),
    (mutants.noise_follows_data, CLIPD2P, "noise"),
    (mutants.clip_forgotten, CLIPD2P, "noise"),
    (mutants.batch_clipped, CLIPD2P, "noise"),
    (mutants.mean_clipped, CLIPD2P, "noise"),
    (mutants.zero_sum_exact, CLIPD2P, "noise"),
    (mutants.always_in_the_cap, PRIVUNIT, "noise"),
    (mutants.always_in_the_cap, TWO_PART, "noise"),
    (mutants.single_number_exact, GAUSSIAN, "noise of a single number"),
    (mutants.single_number_exact, LAPLACE, "noise of a single number"),
    (mutants.empty_batch_silent, CLIPD2P, "books"),
    (mutants.exhausted_exact, GAUSSIAN, "books"),
    (mutants.exhausted_exact, WALK, "books"),
    (mutants.fresh_on_retry, CLIPD2P, "books"),
    (mutants.fresh_on_retry, GOLF, "books"),
    (mutants.fresh_for_each_peer, GOLF, "books"),
    (mutants.accountant_reset, CLIPD2P, "books"),
    (mutants.accountant_reset, GOLF, "books"),
    (mutants.noise_repeated, CLIPD2P, "books"),
    (false_totals.record_sum_exact, CLIPD2P, "noise"),
    (false_totals.record_sum_noise_halved, CLIPD2P, "noise"),
    (false_totals.record_count_exact, CLIPD2P, "noise"),
    (false_totals.record_sum_redrawn, CLIPD2P, "books"),
    (mutants.float_noise, LAPLACE, "low bits"),
]

OTHERS: list[tuple[Mutant, Catcher]] = [
    (mutants.noise_halved, fit("DiscreteGaussian")),
    (mutants.noise_halved, fit("PureSum copies")),
    (mutants.sensitivity_halved, neighbours("clipd2p", "record", "add-remove")),
    (mutants.clip_forgotten, neighbours("clipd2p", "record", "add-remove")),
    (mutants.batch_clipped, neighbours("clipd2p", "record", "add-remove")),
    (mutants.mean_clipped, neighbours("clipd2p", "record", "add-remove")),
    (mutants.noise_follows_data, neighbours("clipd2p", "record", "add-remove")),
    (mutants.sigma_a_percent_less, neighbours("clipd2p", "record", "add-remove")),
    (mutants.sigma_a_percent_less, neighbours("with-replacement", "record", "add-remove", batch=8)),
    (mutants.sigma_a_percent_less, fit("DiscreteGaussian")),
    (mutants.draws_a_percent_smaller, fit("DiscreteGaussian")),
    (mutants.draws_a_percent_smaller, fit("BoundedPoint")),
    (mutants.draws_a_percent_smaller, fit("PureSum copies")),
    (mutants.draws_a_percent_smaller, fit("PureSum joint")),
    (mutants.draws_a_percent_smaller, fit("RecordMechanism laplace")),
    (mutants.tails_cut(3), fit("DiscreteGaussian")),
    (mutants.tails_cut(4), fit("DiscreteGaussian")),
    (mutants.tails_cut(4), fit("BoundedPoint")),
    (mutants.tails_cut(4), fit("PureSum copies")),
    (mutants.sensitivity_a_percent_less, neighbours("clipd2p", "record", "add-remove")),
    (mutants.poisson_rate_a_percent_more, neighbours("with-replacement", "record", "add-remove", batch=8)),
    (mutants.blocks_shifted, neighbours("without-replacement", "record", "replace-one", release_every=2, batch=3)),
    (mutants.blocks_overlap, neighbours("without-replacement", "record", "replace-one", release_every=2, batch=3)),
    (mutants.unit_forgotten, every_unit),
    (mutants.numbered_by_place, neighbours("without-replacement", "record", "add-remove", batch=8)),
    (mutants.numbered_by_place, neighbours("without-replacement", "record", "replace-one", batch=8)),
    (mutants.numbered_by_place, neighbours("golf", "record", "replace-one")),
    (mutants.read_as_planned, neighbours("without-replacement", "record", "add-remove", batch=8)),
    (mutants.read_as_it_comes, neighbours("clipd2p", "window", "add-remove")),
    (mutants.charged_to_the_next_window, neighbours("clipd2p", "window", "add-remove")),
    (mutants.noise_in_two_slots, neighbours("clipd2p", "record", "add-remove")),
    (mutants.seeded_noise, device_noise),
    (mutants.noise_repeated, device_noise),
    (mutants.points_not_rounded, fit("RecordMechanism privunit")),
    (mutants.always_in_the_cap, fit("RecordMechanism privunit")),
    (mutants.always_in_the_cap, fit("RecordMechanism krr-privunit")),
    (mutants.heads_from_strangers, forged_heads),
    (false_totals.last_number_exact, played("clipd2p", "record", "add-remove", **LONG)),
    (false_totals.last_number_exact, played("group-sgd", "device", "replace-one", **LONG)),
    (false_totals.last_number_exact, each_number("DiscreteGaussian")),
    (false_totals.last_number_exact, each_number("BoundedPoint")),
    (false_totals.last_number_exact, each_number("CellMechanism")),
    (false_totals.last_number_exact, each_number("PureSum copies")),
    (false_totals.last_draw_zero, each_number("DiscreteGaussian")),
    (false_totals.last_draw_zero, each_number("PureSum copies")),
    (false_totals.first_draw_repeated, each_number("DiscreteGaussian")),
    (false_totals.harmonics_clipped_twice_as_far, extremal(f"average {HARMONICS}", "device", "replace-one")),
    (
        false_totals.harmonics_of_a_cell_clipped_twice_as_far,
        extremal(f"average {HARMONICS_IN_A_CELL}", "device", "replace-one"),
    ),
    (false_totals.cell_gradients_clipped_twice_as_far, extremal("group-sgd", "record", "add-remove")),
    (false_totals.clip_of_the_largest_value, extremal("clipd2p", "record", "add-remove")),
    (false_totals.unit_rows_clipped_apart, extremal("clipd2p", "device", "add-remove")),
    (false_totals.replacement_moves_a_sum_once, extremal("clipd2p", "record", "replace-one")),
    (false_totals.replacement_moves_a_sum_once, calibrated("full", "replace-one")),
    (false_totals.replacement_moves_a_sum_once, calibrated("cell", "replace-one")),
    (false_totals.charge_after_the_release, played("clipd2p", "record", "replace-one")),
    (false_totals.first_of_the_units_charged, every_unit),
    (false_totals.first_of_the_units_charged, tasks("window", "add-remove")),
    (false_totals.release_forgotten_by_its_query, played("clipd2p", "record", "add-remove")),
    (false_totals.each_task_pays_alone, tasks("window", "add-remove")),
    (false_totals.each_task_pays_alone, tasks("device", "replace-one")),
    (false_totals.records_keep_their_numbers_across_tasks, renumbered_records),
    (false_totals.device_task_is_one_change_of_a_window, tasks("window", "add-remove")),
    (false_totals.device_task_is_one_change_of_a_window, tasks("window", "replace-one")),
    (false_totals.device_task_is_one_change_of_a_record, tasks("record", "add-remove")),
    (false_totals.device_task_is_one_change_of_a_record, tasks("record", "replace-one")),
    (false_totals.replacement_is_one_addition, tasks("record", "replace-one")),
    (false_totals.replacement_is_one_addition, tasks("device", "replace-one")),
    (false_totals.two_changes_double_the_square, tasks("window", "replace-one")),
    (false_totals.two_changes_double_the_square, tasks("device", "replace-one")),
    (false_totals.sampled_replacement_moves_a_sum_once, calibrated("every record", "replace-one")),
    (false_totals.sampled_replacement_moves_a_sum_once, printed_totals),
    (false_totals.sampled_replacement_accounted_as_removal, calibrated("poisson", "replace-one")),
    (false_totals.sampled_replacement_accounted_as_removal, printed_totals),
    (false_totals.one_direction_accounted, calibrated("poisson", "add-remove")),
    (false_totals.rate_of_half_the_batch_charged, played("with-replacement", "record", "add-remove", batch=8)),
    (false_totals.batch_of_the_first_records, played("with-replacement", "record", "add-remove", batch=8)),
    (false_totals.sampled_releases_counted_once, calibrated("poisson", "add-remove")),
    (false_totals.sampled_releases_counted_once, printed_totals),
    (false_totals.colluders_counted_as_honest, calibrated("cell", "add-remove")),
    (mutants.sigma_a_percent_less, CENTRED),
    (mutants.clip_forgotten, CENTRED),
    (mutants.fresh_on_retry, CENTRED),
    (false_totals.record_sum_bounded_without_its_bias, extremal("clipd2p centre=private", "record", "add-remove")),
    (false_totals.record_sum_almost_free, CENTRED),
    (false_totals.record_sum_exact, CENTRED),
    (false_totals.record_count_exact, CENTRED),
]


@pytest.mark.parametrize(
    "mutant, catcher", OTHERS, ids=[f"{mutant.__name__}-{catcher.__name__}" for mutant, catcher in OTHERS]
)
def test_another_check_of_ours_catches_it(monkeypatch: pytest.MonkeyPatch, mutant: Mutant, catcher: Catcher) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        catcher()


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.__name__)
def test_what_ships_is_as_it_is_pinned(pin: Catcher) -> None:
    pin()


def test_no_mutant_is_left_out() -> None:
    named = {
        name
        for module in (mutants, false_totals)
        for name, member in vars(module).items()
        if getattr(member, "__module__", "") == module.__name__ and name[0] != "_"
    }
    played = {mutant for mutant, _, _ in CASES} | {mutant for mutant, _ in OTHERS}
    made = {mutant.__name__.partition("_at_")[0] for mutant in played}
    assert named - {"answered", "drawn_anew"} == made


@pytest.mark.parametrize(
    "mutant, target, game", CASES, ids=[f"{mutant.__name__}-{name}" for mutant, (_, name), _ in CASES]
)
def test_it_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: Mutant, target: Target, game: str) -> None:
    mutant(monkeypatch)
    outcomes = (audit(*target, trials=TRIALS) for _ in range(AUDITS))
    outcome = next((one for one in outcomes if game in {found.game for found in one.findings if found.refuted}), None)
    assert outcome is not None, f"the game {game} refutes it in none of {AUDITS} audits"
    assert outcome.verdict == "refuted"


@pytest.mark.parametrize("target", sorted({target for _, target, _ in CASES}), ids=lambda target: target[1])
def test_sound_code_is_not(target: Target) -> None:
    outcome = audit(*target, trials=TRIALS)
    assert not outcome.refuted, outcome.as_dict()
