"""Check that the privacy ledger is intact and matches the device and its budget, and report the remaining budget."""

import os
from collections.abc import Iterator
from pathlib import Path

from sottovoce.agent.assemble import LEDGER, state_files
from sottovoce.agent.ledger_snapshot import snapshot
from sottovoce.algorithms.family import required_budget
from sottovoce.doctor.finding import Finding, ok, problem, refusal_findings, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, SottovoceError
from sottovoce.identity import load
from sottovoce.vault import Budget, Spending, check_budget, check_ledger_exists, check_owner
from sottovoce.vault.ledger_file import is_log_corrupt

_MIB = 2**20
_LARGE_LOG = 64 * _MIB


def ledger(subject: Subject) -> Iterator[Finding]:
    """Check that a release could be charged to the ledger."""
    path, separate = _locate_ledger(subject)
    if path is None or subject.state is None or not (separate or subject.is_readable):
        return
    agent_ledger = state_files(subject.state)[1]
    if separate and agent_ledger.exists():
        yield problem(
            f"{agent_ledger}: the agent has its own ledger as well as a separate vault, but there must be only one "
            "ledger",
            "move the ledger into vault.directory if it is this device's: docs/explanation/separate-vault.md",
            ExitCode.PRIVACY,
        )
    socket = None if subject.config is None else subject.config.vault.socket
    if socket is not None and not socket.exists():
        yield warning(f"{socket}: no separate vault is running", "start it with `sottovoce vault run --config FILE`")
    if separate and not (os.access(path.parent, os.X_OK) and (os.access(path, os.R_OK) or not path.exists())):
        yield ok(f"{path}: belongs to the separate vault, and this user may not read it")
        return
    check_ledger_exists(path)
    with snapshot(path) as (ledger_copy, copy_path):
        is_corrupt = is_log_corrupt(copy_path)
        budget, spending, owner = ledger_copy.own_budget, ledger_copy.spending(), ledger_copy.owner
    if is_corrupt:
        yield problem(
            f"{path}: the log is corrupt in the middle: charges after that point are lost",
            "leave the ledger unchanged and read docs/reference/exit-codes/5.md; this identity may never "
            "release anything again",
            ExitCode.PRIVACY,
        )
        return
    yield ok(f"{path}: intact, {spending.charges} charges and {spending.releases} releases")
    yield from _check_owner_and_budget(subject, path, owner, budget)
    yield _remaining_budget(budget, spending)
    log = path.with_name(path.name + "-wal")
    if log.exists() and (size := log.stat().st_size) > _LARGE_LOG:
        yield warning(
            f"{log}: has grown to {size / _MIB:.0f} MiB",
            "a program keeps the ledger open for reading, so the log cannot be merged: end that program",
        )


def _locate_ledger(subject: Subject) -> tuple[Path | None, bool]:
    """Return the path of the ledger, and whether it belongs to a separate vault."""
    if subject.config is not None and subject.config.vault.directory is not None:
        return subject.config.vault.directory / LEDGER, True
    return None if subject.state is None else state_files(subject.state)[1], False


def _check_owner_and_budget(subject: Subject, path: Path, owner: str, budget: Budget) -> Iterator[Finding]:
    if subject.state is not None and subject.is_readable:
        try:
            device = load(state_files(subject.state)[0], check_dates=False).node_id
        except SottovoceError:
            device = owner  # other checks report faults of the keys
        yield from refusal_findings(lambda: check_owner(path, owner, device))
    if subject.config is not None:
        configured_budget = required_budget(subject.config)
        yield from refusal_findings(lambda: check_budget(path, budget, configured_budget))


def _remaining_budget(budget: Budget, spending: Spending) -> Finding:
    if budget.epsilon is None or spending.promised_epsilon is None:
        return warning(
            "nothing is promised: the ledger was created for releases without a proved ε, or has paid for some",
            "to obtain a promise, join as a new device with a finite ε and a sound learner",
        )
    remaining = max(0.0, budget.epsilon - spending.budget_epsilon)
    summary = f"ε = {remaining:.3f} of {budget.epsilon:g} left at δ = {budget.delta:g}, {budget.unit} level"
    if spending.budget_epsilon > 0 and remaining < 0.01 * budget.epsilon:
        return warning(
            f"{summary}: the budget is spent, so the device mixes but releases nothing new from its records",
            "no action is needed; a budget cannot be raised, but new windows have their own budget (privacy.unit)",
        )
    return ok(summary)
