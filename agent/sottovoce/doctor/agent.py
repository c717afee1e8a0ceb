"""Checks of the running agent, based on the status that it reports."""

from collections.abc import Iterator

from sottovoce.agent.preconditions import check_socket
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode

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
            "another device uses this device's identity",
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
            f"if its process is still running, end it; then {start}",
        )
    return warning("none is running", start)
