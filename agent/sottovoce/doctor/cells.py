"""Checks for secure sums: whether there are enough devices, and whether any of them is dishonest."""

from collections.abc import Iterator

from sottovoce.agent.preconditions import check_cell
from sottovoce.doctor.finding import Finding, ok, warning
from sottovoce.doctor.subject import Subject


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
    if status is None:
        return
    device_count = len(status["peers"]) + 1
    if device_count < cell.least:
        yield warning(
            f"this device knows {device_count} of the {cell.least} devices that a secure sum requires",
            "start the others, list them under transport.peers, or reduce privacy.cell.min on all devices",
        )
    if status.get("dishonest"):
        yield warning(
            f"this device does not take part in secure sums with {status['dishonest']}",
            "check that device; if it is no longer yours, revoke it with `sottovoce fleet revoke`",
        )
