"""The report for a vector run: `sottovoce.report/1` with a few additional fields."""

from dataclasses import asdict
from typing import Any

import numpy as np
import sottovoce
from sottovoce.data import Records
from sottovoce.privacy.api import PrivacyStatement, Status

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.fleet_meter import Spread
from sottovoce_lab.testbed.baselines import compute_baselines
from sottovoce_lab.testbed.progress import Moment
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic

_MAX_AGENTS = 10_000


def charged_epsilon(statement: PrivacyStatement) -> float | None:
    """Return the ε charged to a record, or None (instead of infinity) if the mechanism has no proved ε."""
    return statement.epsilon if statement.status in (Status.PROVED, Status.NOT_PROVED) else None


def build_point(moment: Moment) -> dict[str, Any]:
    """Return one point of the learning curve."""
    return {"cycle": moment.cycle, "t_s": round(moment.elapsed_s, 3), "online": moment.alive, **asdict(moment.measures)}


def build_report(
    fleet: Fleet,
    statement: PrivacyStatement,
    *,
    wall: float,
    final: Spread,
    curve: list[dict[str, Any]],
    traffic: Traffic,
    online: list[bool],
    releases: int,
    facts: dict[str, Any],
    warnings: list[str],
) -> dict[str, Any]:
    """Assemble the JSON document for a run.

    Args:
        fleet: the fleet that ran.
        statement: the run's privacy statement.
        wall: how long the run took, in seconds.
        final: measures at the end of the run.
        curve: measures during the run.
        traffic: the numbers of messages and bytes sent.
        online: whether each device is online at the end; the report lists the devices only if there are at most 10,000.
        releases: the number of noisy releases per device.
        facts: further facts about the run.
        warnings: warnings for the reader.
    """
    settings = fleet.settings
    spent = charged_epsilon(statement)
    lists_agents = len(online) <= _MAX_AGENTS
    agents = [
        AgentReport(f"agent-{i:05d}", alive, settings.cycles, 0, spent, releases)
        for i, alive in enumerate(online if lists_agents else [])
    ]
    if not lists_agents:
        warnings = [*warnings, f"agents: more than {_MAX_AGENTS} equivalent agents, which are not listed individually"]
    document = Report(
        run={
            "learner": settings.learner.name,
            "fidelity": settings.fidelity,
            "model": fleet.model,
            "transport": "vector",
            "topology": settings.topology,
            "agents": len(online),
            "data": settings.data.source,
            "partition": settings.partition,
            "seed": settings.seed,
            "cycles": settings.cycles,
            "wall_s": round(wall, 3),
            "version": sottovoce.__version__,
            "transform": fleet.transform,
            "perturbation": "gradient" if settings.learner.name == "gradient-walk" else fleet.scheme.name,
            **facts,
        },
        statement=statement,
        final=final,
        curve=curve,
        traffic=traffic,
        resources=Resources(),
        agents=agents,
        faults=_faults(fleet),
        ledgers_agree=True,
        baselines=lambda: compute_baselines(
            _sampled_records(fleet), Records(fleet.normalise(fleet.test.features), fleet.test.labels)
        ),
        warnings=warnings,
    ).document()
    document["privacy"]["releases"] = releases * len(online)
    document["privacy"]["spent_epsilon_max"] = spent
    document["traffic"]["wire_bytes_per_agent_cycle"] = traffic.wire_bytes / (len(online) * settings.cycles)
    return document


def _sampled_records(fleet: Fleet) -> list[Records]:
    """Return the records for a sample of devices, one record each."""
    return [
        fleet.records.at(np.array([row])) for row in range(0, len(fleet.records), max(1, len(fleet.records) // 200))
    ]


def _faults(fleet: Fleet) -> list[str]:
    faults = fleet.settings.faults
    descriptions = [f"drop={faults.drop:g}"] if faults.drop else []
    low, high = faults.network.delay
    descriptions += [f"delay={low}..{high} cycles"] if high else []
    descriptions += [f"churn={faults.churn}, {faults.online:g} online"] if faults.churn != "none" else []
    return descriptions
