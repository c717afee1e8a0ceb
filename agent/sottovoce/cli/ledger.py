"""`sottovoce ledger`: show, verify, move and export a device's privacy ledger."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.errors import LedgerError, UsageError

app = typer.Typer(help="Show, verify, move and export a privacy ledger.", no_args_is_help=True)

State = Annotated[Path | None, typer.Option("--state", help="The device's state directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.callback()
def _group() -> None:
    """Show, verify, move and export a privacy ledger."""


@app.command()
def show(
    state: Annotated[Path, typer.Option("--state", help="The device's state directory.")],
    as_json: AsJson = False,
) -> None:
    """Show the budget and how much of it has been spent. Reading the ledger spends nothing."""
    _print_facts(_ledger_facts(state), as_json)


@app.command()
def verify(
    certificate: Annotated[Path | None, typer.Argument(help="A certificate made by `ledger export`.")] = None,
    state: State = None,
    fleet_certificate: Annotated[
        Path | None, typer.Option("--fleet-certificate", help="The certificate of the fleet you trust, ca.pem.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a ledger, or an exported certificate offline: signature, hash chain and totals."""
    if (certificate is None) == (state is None):
        raise UsageError("specify either a certificate to verify or a ledger's --state directory, not both")
    if state is not None:
        facts = _ledger_facts(state)
        _check_owner(state, facts["owner"])
        _print_facts({**facts, "verdict": "whole"}, as_json)
        return
    if certificate is None or fleet_certificate is None:
        raise UsageError(
            "a certificate is only as trustworthy as its fleet; set --fleet-certificate to the ca.pem you trust"
        )
    from sottovoce.reports.certificate import verify as verify_certificate

    facts = verify_certificate(_read(certificate), _read(fleet_certificate), certificate)
    _print_facts({**facts, "verdict": "holds"}, as_json)


@app.command()
def move(
    target: Annotated[Path, typer.Argument(help="The new state directory; it must not exist yet.")],
    state: Annotated[Path, typer.Option("--state", help="The state directory of the stopped device, or of its vault.")],
) -> None:
    """Move a device's ledger to another machine permanently; the ledger here is closed."""
    from sottovoce.node.state_directory import move as move_ledger

    typer.echo(move_ledger(state, target))
    typer.echo(
        "the ledger here is closed; start the device in the new directory, and delete the files left here", err=True
    )


@app.command()
def export(
    state: Annotated[Path, typer.Option("--state", help="The device's state directory.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger, if it is not in --state.")] = None,
) -> None:
    """Export a statement of the privacy spent, signed by the device, which anyone can verify offline."""
    from sottovoce.cli.output import check_writable, write_text_file
    from sottovoce.fleet import load
    from sottovoce.node.state_directory import state_files
    from sottovoce.privacy.vault import Ledger
    from sottovoce.reports.certificate import certify

    if out is not None:
        check_writable("--out", out)
    identity_directory, default_ledger = state_files(state)
    identity = load(identity_directory)
    opened_ledger = Ledger.read(ledger or default_ledger)
    try:
        document = certify(opened_ledger, identity)
    finally:
        opened_ledger.close()
    if out is None:
        typer.echo(document)
    else:
        write_text_file("--out", out, document)


def _ledger_facts(state: Path) -> dict[str, Any]:
    """Return a summary of the ledger in a state directory; opening the ledger verifies it completely."""
    from sottovoce.node.local_vault import LEDGER
    from sottovoce.privacy.vault import Ledger

    ledger = Ledger.read(state / LEDGER)
    try:
        budget, spending, head = ledger.own_budget, ledger.spending(), ledger.head()
        enrolled = ledger.numbers.enrolled_count
    finally:
        ledger.close()
    return {
        "schema": "sottovoce.ledger/1",
        "owner": ledger.owner,
        "unit": budget.unit,
        "neighbouring": budget.neighbouring,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "spent_epsilon": spending.promised_epsilon,
        **({} if spending.alone is None else {"spent_epsilon_alone": spending.epsilon_alone}),
        "charges": spending.charges,
        "releases": spending.releases,
        "enrolled_records": enrolled,
        "head": head.link.hex(),
    }


def _check_owner(state: Path, owner: str) -> None:
    """Check that the device keys in the ledger's state directory belong to the ledger's owner."""
    from sottovoce.fleet import load
    from sottovoce.node.state_directory import state_files

    identity, ledger = state_files(state)
    if not identity.is_dir():
        return
    device = load(identity).node_id
    if device != owner:
        raise LedgerError(
            f"{ledger}: this ledger belongs to device {owner}, but the keys in the same directory belong to "
            f"{device}; restore the device's own ledger"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def _print_facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        typer.echo(f"{key:14} {value}")
