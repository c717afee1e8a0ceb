"""`sottovoce privacy audit`: attack the privacy claim for a device's releases."""

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from sottovoce.errors import PrivacyError, UsageError

from sottovoce_lab.cli import names

if TYPE_CHECKING:
    from sottovoce_lab.auditor import Audit


def run_audit(
    mechanism: Annotated[
        str | None, typer.Option(help="Audit this mechanism of the vault.", autocompletion=names.mechanisms)
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="Audit this learner through its messages.", autocompletion=names.learners)
    ] = None,
    fidelity: Annotated[Literal["sound", "paper"], typer.Option(help="Fidelity of the learner.")] = "sound",
    epsilon: Annotated[float, typer.Option(help="ε of the device's budget.")] = 2.0,
    delta: Annotated[float, typer.Option(help="δ of the device's budget.")] = 1e-5,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Number of canaries; by default, a number that takes a few seconds.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the auditor's coins; the device's noise is never seeded.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Attack a mechanism or a learner as a peer could, and print the lower bound on ε that the attack proves."""
    from sottovoce_lab.auditor import audit

    if (mechanism is None) == (learner is None):
        raise UsageError("specify what to audit, with either --mechanism or --learner")
    if mechanism is not None and fidelity != "sound":
        raise UsageError("--fidelity applies only to a learner: omit it with --mechanism")
    if seed < 0:
        raise UsageError(f"--seed {seed}: the seed must not be negative; choose 0 or more")
    outcome = audit(
        "mechanism" if learner is None else "learner",
        mechanism or learner or "",
        fidelity=fidelity,
        epsilon=epsilon,
        delta=delta,
        trials=trials,
        seed=seed,
        progress=lambda line: typer.echo(f"running game: {line}", err=True),
    )
    typer.echo(json.dumps(outcome.as_dict()) if as_json else _format_audit(outcome))
    if outcome.refuted:
        raise PrivacyError(
            f"the privacy claim of {outcome.kind} `{outcome.name}` does not hold: do not rely on its ε; see the games "
            "above that refuted it"
        )


def _format_audit(outcome: "Audit") -> str:
    stated = outcome.statement.epsilon
    claim = "no ε" if stated is None else f"ε = {stated:g} at δ = {outcome.delta:g} ({outcome.statement.status})"
    lines = [f"{outcome.kind} {outcome.name}, {outcome.fidelity}, seen: {outcome.observation}; stated: {claim}"]
    for finding in outcome.findings:
        facts = ", ".join(f"{name} {fact}" for name, fact in finding.as_dict().items() if _is_shown(name, fact))
        lines.append(f"  {finding.game}: {facts}")
    lines.append(f"verdict: {outcome.verdict}; with 95% confidence, ε ≥ {outcome.epsilon_lower_bound:.3f}")
    if (size := outcome.sample_size) is not None:
        lines.append(f"if the true ε were twice the claim, {size} canaries in each world would refute it")
    return "\n".join(lines)


def _is_shown(name: str, fact: object) -> bool:
    return name not in ("name", "question") and fact is not None
