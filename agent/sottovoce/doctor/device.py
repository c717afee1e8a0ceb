"""Checks of this device: certificates, privacy ledger, records, secure sums and the running agent."""

import os
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from sottovoce.algorithms.family import required_budget
from sottovoce.data import parse
from sottovoce.doctor.finding import Finding, error_finding, ok, problem, refusal_findings, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import DataError, ExitCode, SottovoceError
from sottovoce.fleet import Identity, load
from sottovoce.fleet.renewal import renewal_time
from sottovoce.node.gossip.revocation_store import load_revocation_list
from sottovoce.node.local_vault import LEDGER, load_configured_dataset
from sottovoce.node.start_checks import check_mode, check_peers, check_socket, find_notes
from sottovoce.node.state_directory import snapshot, state_files
from sottovoce.node.vault_session import check_cell
from sottovoce.privacy.ledger.ledger_file import is_log_corrupt
from sottovoce.privacy.secure_sum.neighbourhoods import cell_neighbourhood_size
from sottovoce.privacy.vault import Budget, Spending, check_budget, check_ledger_exists, check_owner

_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO
_RENEW = "renew it with `sottovoce fleet renew`: docs/how-to/enrol.md"
_SOON = timedelta(days=1)


def certificates(subject: Subject) -> Iterator[Finding]:
    """Check for faults that would prevent the agent from starting, and for certificates that expire soon."""
    if subject.state is None or not subject.is_readable:
        return
    config, directory = subject.config, state_files(subject.state)[0]
    peers = [] if config is None else [peer.id for peer in config.transport.peers]
    identity = load(directory, peers=peers, check_dates=False)
    yield ok(f"{identity.node_id} of fleet {identity.fleet}: keys and certificates match")
    yield _validity(subject, identity)
    if directory.stat().st_mode & _OTHER_USERS:
        yield warning(f"{directory}: other users can access this directory", f"chmod 700 {directory}")
    if config is not None:
        yield from refusal_findings(lambda: check_mode(config, identity))
        yield from refusal_findings(lambda: check_peers(config, identity))
    if config is not None and not identity.ca_pem:
        yield problem(
            "this device is pinned but does not trust any other device",
            "list its peers under transport.peers, and add their certificates with `sottovoce fleet join --pin`",
            ExitCode.IDENTITY,
        )
    revocations = load_revocation_list(subject.state, identity.authority)
    if revocations is not None and identity.node_id in revocations.node_ids:
        yield problem(
            "the fleet has revoked this device, so no other device communicates with it",
            "join as a new device in another state directory",
            ExitCode.IDENTITY,
        )


def _validity(subject: Subject, identity: Identity) -> Finding:
    remaining, renewal = identity.not_after - subject.now, renewal_time(identity)
    days = f"{remaining.days} days" if remaining > _SOON else f"{remaining.total_seconds() / 3600:.0f} hours"
    validity = f"the certificate is valid until {identity.not_after:%Y-%m-%d %H:%M} UTC, {days} more"
    if remaining < timedelta(0):
        expiry = f"the certificate expired on {identity.not_after:%Y-%m-%d %H:%M} UTC, and peers refuse it"
        return problem(expiry, _RENEW, ExitCode.IDENTITY)
    if subject.now > renewal:
        return warning(f"{validity}; renewal has been due since {renewal:%Y-%m-%d}", _RENEW)
    return ok(f"{validity}; renewal is due from {renewal:%Y-%m-%d}")


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
        enrolled = ledger_copy.numbers.enrolled_count
    if is_corrupt:
        yield problem(
            f"{path}: the log is corrupt in the middle: charges after that point are lost",
            "leave the ledger unchanged and read docs/reference/exit-codes.md#5-privacy; this identity must never "
            "release anything again",
            ExitCode.PRIVACY,
        )
        return
    yield ok(f"{path}: intact, {spending.charges} charges and {spending.releases} releases")
    if enrolled:
        yield ok(f"{path}: stores {enrolled} records until the next fleet task; to erase one: docs/how-to/erase.md")
    yield from _check_owner_and_budget(subject, path, owner, budget)
    yield _remaining_budget(budget, spending)
    log = path.with_name(path.name + "-wal")
    if log.exists() and (size := log.stat().st_size) > _LARGE_LOG:
        yield warning(
            f"{log}: has grown to {size / _MIB:.0f} MiB",
            "a program keeps the ledger open for reading, so the log cannot be merged: stop that program",
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
            device = owner  # other checks report problems with the keys
        yield from refusal_findings(lambda: check_owner(path, owner, device))
    if subject.config is not None:
        configured_budget = required_budget(subject.config)
        yield from refusal_findings(lambda: check_budget(path, budget, configured_budget))


def _remaining_budget(budget: Budget, spending: Spending) -> Finding:
    if budget.epsilon is None or spending.promised_epsilon is None:
        return warning(
            "nothing is promised: the ledger was created, or has been charged, for releases without a proved ε",
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


def records(subject: Subject) -> Iterator[Finding]:
    """Check that an agent can load `data.source`, and that no other user can read it."""
    if subject.config is None:
        return
    data = subject.config.data
    try:
        spec = parse(data.source)
    except DataError as error:
        yield error_finding(error)
        return
    if spec.path is None or spec.kind == "feed":
        return
    path, has_separate_vault, is_loaded = spec.path, subject.config.vault.socket is not None, False
    try:
        mode = path.stat().st_mode
        readable = os.access(path, os.R_OK)
    except PermissionError:
        mode, readable = 0, False
    except OSError:
        yield from refusal_findings(lambda: load_configured_dataset(data))
        return
    if not readable and has_separate_vault:
        yield ok(f"{path}: readable only by the separate vault")
    elif not readable:
        yield problem(f"{path}: this user may not read the file", "make the agent's user its owner", ExitCode.DATA)
    else:
        refusals = [*refusal_findings(lambda: load_configured_dataset(data))]
        yield from refusals
        is_loaded = not refusals
    if readable and mode & _OTHER_USERS:
        yield warning(f"{path}: other users can read the records", f"chmod go-rwx {path}")
    elif readable:
        yield ok(f"{path}: exists, readable only by its owner")
    if is_loaded:
        notes, summary = find_notes(subject.config)
        yield from (warning(*note) for note in notes)
        if summary:
            yield ok(f"{path}: {summary}")


def cells(subject: Subject) -> Iterator[Finding]:
    """Check that this device can take part in secure sums, and report the problems that the agent has noticed.

    Raises:
        ConfigError: if too few other devices are configured and discovery is off.
    """
    config, status = subject.config, subject.status
    if config is None or config.cell is None:
        return
    check_cell(config)
    cell = config.cell
    required, failures = cell.opening_threshold(cell.least), f"sum{' is' if cell.spare == 1 else 's are'}"
    yield ok(
        f"a sum of {cell.least} devices can be opened by {required}; {cell.colluding} may collude; "
        f"{cell.spare} failed {failures} covered by the budget"
    )
    if (sparse := cell_neighbourhood_size(cell, cell.most)) is not None:
        yield ok(
            f"in a sum of {cell.most} devices, each shares keys and masks with {sparse.neighbours} others, of which "
            f"{sparse.threshold} must remain; a planned round fails with probability 0.001, and ε does not change"
        )
    if status is None:
        return
    device_count = len(status["peers"]) + 1
    if device_count < cell.least:
        yield warning(
            f"this device knows {device_count} of the {cell.least} devices that a secure sum requires",
            "start the missing devices, list them under transport.peers, or reduce privacy.cell.min on all devices",
        )
    if status.get("waits"):
        yield ok(f"the secure sum {status['waits']}")
    if status.get("sums_refused"):
        yield warning(
            f"this device refused {status['sums_refused']} secure sums, because no honest devices can have made them",
            "a device in these sums is dishonest, and cannot be identified; compare what their owners report, and "
            "revoke it with `sottovoce fleet revoke`",
        )
    if status.get("dishonest"):
        yield warning(
            f"this device does not take part in secure sums with {status['dishonest']}",
            "check that device; if it is no longer yours, revoke it with `sottovoce fleet revoke`",
        )


_MAX_WAIT_SECONDS = 300.0
_SOCKET = "agent.sock"


def agent(subject: Subject) -> Iterator[Finding]:
    """Check that an agent answers, and report the problems in its status.

    Raises:
        ConfigError: if no agent can answer because the socket's path is too long.
    """
    if subject.state is None or not subject.is_readable:
        return
    check_socket(subject.state)
    if subject.status is None:
        yield _no_answer_finding(subject)
        return
    status = subject.status
    peer_count = len(status["peers"])
    peers = f"{peer_count} peer{'' if peer_count == 1 else 's'}"
    yield ok(f"{status['state']}, cycle {status['cycle']}, {peers}, {status['resources']['rss_mib']:.0f} MiB")
    if status["transport"]["trouble"]:
        yield problem(
            f"peers cannot reach this device through its broker: {status['transport']['trouble']}",
            "start the broker, or correct transport.mqtt",
            ExitCode.NETWORK,
        )
    if status["membership"].get("duplicates", 0) + status["transport"]["duplicates"]:
        yield problem(
            "another device is using this device's identity",
            "stop both devices; docs/how-to/enrol.md explains which one may continue",
            ExitCode.IDENTITY,
        )
    other_groups = status["task"]["others"]
    for group in other_groups:
        differences = "; ".join(group["differences"]) or "details are not known yet"
        yield warning(
            f"this device does not mix with {group['devices']} devices, because their task differs: {differences}",
            "use the same settings on all devices that should learn together: docs/explanation/tasks.md lists them",
        )
    failing = [peer for peer in status["peers"] if peer["failures_in_a_row"]]
    for peer in failing:
        yield warning(
            f"cannot reach {peer['last_failure']}", "check that device and the network between the two devices"
        )
    for wait in status["waiting"]:
        if wait["since_s"] > _MAX_WAIT_SECONDS and not wait["name"].startswith("timer:"):
            yield warning(
                f"the agent has been waiting for {wait['reason']} for {wait['since_s'] / 60:.0f} minutes",
                "see `sottovoce agent status --why` for details",
            )


def _no_answer_finding(subject: Subject) -> Finding:
    start = f"start it with `sottovoce agent run --config {subject.file or 'FILE'}`"
    if subject.state is not None and (subject.state / _SOCKET).exists():
        return warning(
            "the agent's socket exists, but no agent responds; it was killed or is stuck",
            f"if its process is still running, kill it; then {start}",
        )
    return warning("no agent is running", start)
