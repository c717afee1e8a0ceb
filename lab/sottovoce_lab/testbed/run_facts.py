"""Report sections and warnings shared by testbeds in one process and in several."""

from dataclasses import asdict
from typing import Any

import numpy as np
import sottovoce
from sottovoce.config.effect import keys_without_effect as keys_without_effect
from sottovoce.data import Records, prepare_records
from sottovoce.data.notes import Note, data_notes, data_summary

from sottovoce_lab.simulator import describe_mixing
from sottovoce_lab.testbed.baselines import Baselines, compute_baselines
from sottovoce_lab.testbed.better_choice import better_choices
from sottovoce_lab.testbed.gradient_bound import RUNS
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.progress import Moment

SIMULATED = "simulated noise is seeded and protects no one; the printed ε is what real noise would cost"
"""Warning for every run that uses simulated noise instead of the devices' own."""
_FEW_TEST_RECORDS = 30


def describe_run(plan: Plan, wall: float) -> dict[str, Any]:
    """Return the report's `run` part, with the settings and the duration `wall` in seconds."""
    options, first_step = plan.options, plan.family.first_step()
    return {
        "learner": options.learner,
        "fidelity": options.fidelity,
        "model": plan.model,
        "transport": options.transport,
        "topology": options.topology,
        "mixing": describe_mixing(options.topology, plan.peers, getattr(plan.config.learner, "mixing", None)),
        "agents": options.agents,
        "data": options.data,
        "partition": options.partition,
        "held_by_most": plan.held_by_most,
        "seed": options.seed,
        "cycles": options.cycles,
        "records": data_summary(_training_records(plan), plan.classes, plan.labels, plan.columns),
        "steps": None if first_step is None else first_step.summary,
        "lifted_quotas": list(options.lifted_quotas),
        "better_choices": better_choices(plan),
        "wall_s": round(wall, 3),
        "version": sottovoce.__version__,
    }


def plan_baselines(plan: Plan) -> Baselines | None:
    """Return the baselines for a fleet's honest devices, or None if the task is not a classification."""
    if plan.classes < 2:
        return None
    honest_records = plan.raw[: plan.options.agents - plan.dishonest_count]
    return compute_baselines([prepare_records(raw, plan.transform, plan.bounds) for raw in honest_records], plan.test)


def plan_notes(plan: Plan) -> list[Note]:
    """Return what does not fit in the data that the agents hold."""
    budget = plan.options.budget
    delta = None if budget.epsilon is None else budget.delta
    records, columns = _training_records(plan), plan.columns
    return [*data_notes(records, bounds=plan.bounds, transform=plan.transform, columns=columns, delta=delta)]


def data_warnings(plan: Plan) -> list[str]:
    """Return warnings about the data that the agents hold, and about too few test records."""
    notes, count = plan_notes(plan), len(plan.test)
    if plan.options.algorithm.predicts and count < _FEW_TEST_RECORDS:
        uncertainty = 50 * 1.96 / count**0.5  # points of a 95 % interval at an accuracy of a half, where it is widest
        problem = (
            f"the number of test records is {count}, so an accuracy is uncertain by up to {uncertainty:.0f} points"
        )
        notes.append(Note(problem, f"use at least {_FEW_TEST_RECORDS}"))
    return [f"{problem}: {remedy}" for problem, remedy in notes]


def _training_records(plan: Plan) -> Records:
    """Return the records of all agents together, before the transform."""
    features, labels = (np.concatenate([getattr(raw, name) for raw in plan.raw]) for name in ("features", "labels"))
    return Records(features, labels)


def plan_warnings(plan: Plan) -> list[str]:
    """Return all warnings that are known before a run."""
    checks = (
        data_warnings,
        shared_record_warnings,
        contamination_warnings,
        uncharged_value_warnings,
        ineffective_key_warnings,
        dishonesty_warnings,
        mixing_warnings,
        hint_warnings,
    )
    return [warning for check in checks for warning in check(plan)]


def contamination_warnings(plan: Plan) -> list[str]:
    """Return a warning if gradient weights are chosen on the same records that models are measured on."""
    if not plan.public_split.is_contaminated:
        return []
    return ["data.validation = test: gradients are weighted on test records, so the printed accuracy is too optimistic"]


def shared_record_warnings(plan: Plan) -> list[str]:
    """Return warnings if several agents hold the same record or records share a reading, because costs then add up."""
    agents, budget, warnings = plan.held_by_most, plan.options.budget, []
    if budget.epsilon is None:
        return []
    if agents > 1:
        warnings.append(f"{agents} agents hold the same record, which may cost it {agents} times the printed ε and δ")
    if plan.target is not None and plan.target.overlap > 1 and budget.unit == "record":
        warnings.append(
            f"a reading is part of up to {plan.target.overlap} records, so the guarantee for one record does not "
            "hold for a reading: use --set privacy.unit=window to protect all readings of a day"
        )
    return warnings


def hint_warnings(plan: Plan) -> list[str]:
    """Return a warning that recommends a better setting for a fleet of this size, if the learner has one."""
    hint = plan.config.learner.hint(sum(map(len, plan.raw)))
    return [] if hint is None else [hint]


def mixing_warnings(plan: Plan) -> list[str]:
    """Return a warning if the fleet is so large that its devices trust one another."""
    if not plan.averages_in_pairs:
        return []
    return [
        f"learner.mixing = pairwise, because {plan.options.agents} contributions do not fit into a device's memory: "
        "one dishonest device can then corrupt every model"
    ]


def dishonesty_warnings(plan: Plan) -> list[str]:
    """Return a warning if some agents are dishonest."""
    dishonesty = plan.options.faults.dishonest
    if dishonesty is None:
        return []
    return [
        f"{plan.dishonest_count} of {plan.options.agents} agents are dishonest ({dishonesty.lie}); "
        "only the others are measured"
    ]


def ineffective_key_warnings(plan: Plan) -> list[str]:
    """Return warnings about keys that other keys make ineffective; in a device's own file, such keys are errors."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in plan.options.settings.items():
        section, _, name = key.partition(".")
        tables.setdefault(section, {})[name.partition(".")[0]] = value
    ineffective = keys_without_effect(tables, plan.config)
    return [f"{'.'.join(key)} has no effect: {reason}" for key, reason in ineffective if key[0] != "transport"]


def uncharged_value_warnings(plan: Plan) -> list[str]:
    """Return warnings about values that the harness computed from all records without charging any ledger."""
    warnings = []
    if plan.gradient_bound is not None:
        warnings.append(
            f"learner.gradient_bound = {plan.gradient_bound:.4g} comes from {RUNS} runs without privacy on all "
            "records, as in the paper; no ledger was charged for these runs"
        )
    if plan.classes == 1:
        warnings.append(
            "mae_least_squares is the error of a fit to all agents' records, which only this harness may read"
        )
    if "noise_deviation" in plan.family.facts:
        warnings.append("rmse and mae are distances from the true mean of all devices, which only this harness knows")
    return warnings


def curve_point(moment: Moment) -> dict[str, Any]:
    """Return a point for the report's `curve` part."""
    return {"cycle": moment.cycle, "t_s": round(moment.elapsed_s, 3), **asdict(moment.measures)}
