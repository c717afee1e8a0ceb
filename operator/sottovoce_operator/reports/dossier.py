"""A device's privacy dossier for auditors and data-protection officers, built from its ledger and configuration.

Every fact comes from the vault's statement, the ledger or a configuration key. A fact that
none of these contains is not guessed but marked as open, for the device's operator to answer.
"""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from sottovoce.config import AgentConfig
from sottovoce.node.own_task import planned_steps
from sottovoce.privacy.vault import Ledger
from sottovoce.reports.account import audit_account, build_account
from sottovoce.reports.explain import LedgerTotals, build_explanation, describe_person_promise

from sottovoce_operator.reports.outlines import outline_aggregates

SCHEMA = "sottovoce.dossier/1"
OPEN = "open: to be answered by the operator of this device"

_EVENT_DESCRIPTIONS = {
    "gaussian-sum": "a sum with discrete Gaussian noise",
    "cell-sum": "a share of a cell's sum, with a share of its discrete Gaussian noise",
    "sampled-gaussian": "a sum over a secret random sample of the units, with discrete Gaussian noise",
    "record": "one perturbed record",
    "pure-sum": "a sum with noise for pure ε-differential privacy",
    "unproved": "a release without a proven guarantee",
    "moved": "a move of the ledger to another directory; nothing was released",
}


def build_dossier(config: AgentConfig, ledger: Ledger, ledger_path: str, version: str) -> dict[str, Any]:
    """Return the dossier as a JSON-serialisable dictionary.

    Args:
        config: the device's configuration.
        ledger: the device's ledger, open for reading.
        ledger_path: path of the ledger.
        version: version of this program.

    Raises:
        LedgerError: if the ledger is inconsistent.
        PrivacyError: if the configuration has no guarantee.
    """
    account = build_account(ledger)
    spending, head = audit_account(account)
    present_spending = replace(spending, of_task=ledger.spending().of_task)
    details = build_explanation(
        config, LedgerTotals(present_spending, ledger_path, ledger.own_budget, ledger.numbers.enrolled_count)
    )
    limits = {"steps": planned_steps(config), "clip": getattr(config.learner, "clip", None)}
    facts = {
        "schema": SCHEMA,
        "program": f"sottovoce {version}",
        "device": {
            "id": ledger.owner,
            "ledger": ledger_path,
            "head": {"charges": head.charges, "link": head.link.hex()},
        },
        "statement": details["statement"],
        "spent": {
            "epsilon": spending.promised_epsilon,
            "budget_epsilon": account.epsilon,
            "delta": account.delta,
            "charges": spending.charges,
            "releases": spending.releases,
            "by_kind": _charges_by_kind(ledger),
        },
        "fleet_task": details["all_tasks"],
        "unit": {
            "name": details["statement"]["unit"],
            "means": details["unit"],
            "hidden": details["hidden"],
            "one_person": details["person"],
        },
        "released": {
            "what": details["leaves_the_device"],
            "total": details["total"],
            "renews": details["renews"],
        },
        "public": {
            "bounds": config.data.bounds,
            "features": config.data.features,
            "classes": config.data.classes,
            "expected_records": config.data.expected_records,
            "transform": config.data.transform,
            "windows": config.data.windows,
            "learner": config.learner.name,
            "model": config.learner.chosen_model,
            **{key: value for key, value in limits.items() if value is not None},
            "period_s": config.learner.period,
        },
        "isolation": {
            "vault": "a separate process" if config.vault.socket else "inside the agent's process",
            "released_without_peers": config.ledger.alone,
        },
        "not_covered": details["not_covered"],
        "erasure": details["erasure"],
    }
    outlines = outline_aggregates(config, details, OPEN)
    return {
        **facts,
        **({} if outlines is None else {"aggregates": outlines}),
        "questions": _answer_questions(facts),
        "registry": _registry_fields(facts),
        "assessment": _draft_assessment(facts),
    }


def _charges_by_kind(ledger: Ledger) -> list[dict[str, Any]]:
    """Return each kind of charge with its description, parameters and number of charges."""
    kinds: Counter[str] = Counter()
    for _, terms, _ in ledger.charges():
        parameters = json.loads(terms)
        for key in ("units", "record"):  # these identify the unit, not the kind of charge
            parameters.pop(key, None)
        kinds[json.dumps(parameters, sort_keys=True)] += 1
    return [
        {"kind": _EVENT_DESCRIPTIONS[json.loads(kind)["event"]], "parameters": json.loads(kind), "charges": count}
        for kind, count in kinds.items()
    ]


def _describe_duration(task: dict[str, Any] | None) -> str:
    """Return a description of how long a promise holds."""
    life = "for the whole lifetime of the ledger"
    if task is None:
        return life
    total = "nothing is promised" if task["epsilon"] is None else f"ε = {task['epsilon']:g} at most"
    return (
        f"for the fleet's task of epoch {task['epoch']}; for all of this device's tasks "
        f"together {total}, δ = {task['delta']}, "
        f"{task['unit']} level, {task['neighbouring']}, {life}"
    )


def _answer_questions(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Return paraphrased evaluation questions from NIST SP 800-226, each with its topic in brackets, and answers."""
    statement, unit, spent = facts["statement"], facts["unit"], facts["spent"]
    epsilon = "nothing is promised" if statement["epsilon"] is None else f"ε = {statement['epsilon']:g}"
    person_promises = [
        describe_person_promise(promise, in_task=facts["fleet_task"] is not None) for promise in unit["one_person"]
    ]
    answers = [
        ("How strong is the guarantee? [privacy parameters]",
         f"{epsilon}, δ = {statement['delta']}, {_describe_duration(facts['fleet_task'])}; "
         f"status {statement['status']}: {statement['reason']}"),
        ("What is protected: one contribution, or a person? [unit of privacy]", f"{unit['name']}: {unit['means']}"),
        ("What if several units belong to one person? [unit of privacy]",
         "; ".join(person_promises) or "nothing is promised"),
        ("How do neighbouring data sets differ? [bounded or unbounded]",
         f"{statement['neighbouring']}; this hides {unit['hidden']}"),
        ("Which mechanism adds noise, and to what? [algorithms]", str(statement["mechanism"])),
        ("How do releases add up, and what keeps track of them? [composition]",
         f"{statement['composition']}; an append-only ledger, charged before the noise is drawn: {spent['charges']} "
         f"charges for {spent['releases']} releases so far"),
        ("Who is trusted, and who sees what? [trust model]", str(statement["threat_model"])),
        ("Is the noise sampled exactly? [floating point]",
         f"{statement['mechanism']} ({statement['reason']})"),
        ("What do the timing and the size of messages reveal? [side channels]",
         "the program's countermeasures: docs/explanation/privacy-model.md#side-channels; on this device: " + OPEN),
        ("Who has access to the data themselves? [security, access control]",
         f"file modes protect the records, the keys and the ledger; the vault is {facts['isolation']['vault']}"),
        ("Are bounds and settings chosen without looking at the data? [data-dependent settings]",
         "they are declared in the configuration; whether they were chosen without looking at the records is " + OPEN),
        ("How useful are the results, and for whom are they worse? [utility, bias]", OPEN),
        ("Can a person's data be erased? [data retention]", facts["erasure"]),
        ("How were the data collected, and what other copies exist? [data collection]", OPEN),
        ("Are the same data released anywhere else? [other releases]", OPEN),
    ]  # fmt: skip
    return [{"question": question, "answer": answer} for question, answer in answers]


def _registry_fields(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that deployment registries use to describe a deployment."""
    statement = facts["statement"]
    is_pure = any(kind["parameters"]["event"] in ("record", "pure-sum") for kind in facts["spent"]["by_kind"])
    return {
        "deployment": f"device {facts['device']['id']}",
        "organisation": OPEN,
        "intended use": OPEN,
        "region and dates": OPEN,
        "data": OPEN,
        "flavour": "pure differential privacy" if is_pure else "approximate differential privacy",
        "model of trust": "local: no other party is trusted"
        if statement.get("epsilon_alone") is None
        else f"distributed: {statement['threat_model']}",
        "privacy parameters": {"epsilon": statement["epsilon"], "delta": statement["delta"]},
        "unit of privacy": statement["unit"],
        "neighbouring relation": statement["neighbouring"],
        "mechanism": statement["mechanism"],
        "composition": statement["composition"],
        "post-processing": "everything computed from releases: models, messages, predictions",
        "implementation": facts["program"],
        "status of the proof": f"{statement['status']}: {statement['reason']}",
    }


def _draft_assessment(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Return a draft data-protection impact assessment (Regulation (EU) 2016/679, Article 35 (7))."""
    statement, released = facts["statement"], facts["released"]
    return [
        {
            "part": "(a) the processing and its purposes",
            "draft": "The device computes with its own records, which never leave it. What does leave it: "
            f"{released['what']}. Purposes, controller and legitimate interests: {OPEN}.",
        },
        {"part": "(b) necessity and proportionality", "draft": f"{OPEN}."},
        {
            "part": "(c) risks to the people concerned",
            "draft": "Anyone who reads everything that the device ever sends can learn as much about one unit as the "
            f"stated ε and δ allow ({statement['epsilon']}, {statement['delta']}), and more about several units of "
            "one person: see the list of units. Not covered: " + "; ".join(facts["not_covered"]) + ".",
        },
        {
            "part": "(d) measures",
            "draft": f"Noise: {statement['mechanism']}. A ledger refuses any charge that would exceed the budget. "
            f"Renewal: {released['renews']}. Messages are encrypted and signed. Organisational measures: {OPEN}.",
        },
    ]


def render_markdown(document: dict[str, Any]) -> str:
    """Return the dossier as a Markdown page."""
    device, statement, spent = document["device"], document["statement"], document["spent"]
    lines = [
        f"# Privacy dossier of device {device['id']}",
        "",
        f"Generated by {document['program']} from the ledger `{device['ledger']}` (charge {device['head']['charges']}, "
        f"link `{device['head']['link']}`) and the device's configuration. Facts that neither of them contains are "
        "marked as open.",
        "",
        "## What is promised",
        "",
        *_render_table({key: value for key, value in statement.items() if value is not None}),
        "",
        "## What was spent",
        "",
        *_render_table({key: value for key, value in spent.items() if key != "by_kind"}),
        "",
        "| kind | parameters | charges |",
        "| --- | --- | --- |",
        *(f"| {kind['kind']} | `{json.dumps(kind['parameters'])}` | {kind['charges']} |" for kind in spent["by_kind"]),
        "",
        "## The unit, and one person",
        "",
        f"{document['unit']['means']}. Hidden: {document['unit']['hidden']}.",
        "",
        *(
            f"- {describe_person_promise(promise, in_task=document['fleet_task'] is not None)}"
            for promise in document["unit"]["one_person"]
        ),
        "",
        "## What is released",
        "",
        f"{document['released']['what']}. In total: {document['released']['total']}. Budget renewal: "
        f"{document['released']['renews']}.",
        "",
        "## What is declared public",
        "",
        *_render_table(document["public"]),
        "",
        "## What is not covered",
        "",
        *(f"- {limitation}" for limitation in document["not_covered"]),
        "",
        "## Questions of NIST SP 800-226",
        "",
        *_render_table({entry["question"]: entry["answer"] for entry in document["questions"]}, ("question", "answer")),
        "",
        "## For a deployment registry",
        "",
        *_render_table(document["registry"]),
        "",
        "## Draft for a data-protection impact assessment",
        "",
    ]
    for part in document["assessment"]:
        lines += [f"**{part['part']}** {part['draft']}", ""]
    return "\n".join([*lines, *_render_aggregates(document.get("aggregates"))])


def _render_aggregates(outlines: dict[str, Any] | None) -> list[str]:
    if outlines is None:
        return []
    summary = {
        "homes in a sum, at least": outlines["least_homes"],
        "largest share of one home": outlines["largest_share"],
        "what that rests on": outlines["largest_share_basis"],
        "ε in words": outlines["epsilon_in_words"],
        "15/15 rule": outlines["rule_15_15"],
    }
    return [
        "## Aggregates of meter data",
        "",
        *_render_table(summary),
        "",
        "### Outline of a plan for Ofgem",
        "",
        *_render_table(outlines["ofgem_plan"]),
        "",
        "### Outline of a Dutch use case",
        "",
        *_render_table(outlines["dutch_use_case"]),
        "",
    ]


def _render_table(facts: dict[str, Any], head: tuple[str, str] = ("", "")) -> list[str]:
    rows = [f"| {key} | {value if isinstance(value, str) else json.dumps(value)} |" for key, value in facts.items()]
    return [f"| {head[0]} | {head[1]} |", "| --- | --- |", *rows]
