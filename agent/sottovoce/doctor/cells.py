"""Checks of secure sums: whether there are enough devices, and whether any of them is dishonest."""

from collections.abc import Iterator

from sottovoce.agent.runnable import check_cell
from sottovoce.doctor.finding import Finding, ok, warning
from sottovoce.doctor.subject import Subject


def cells(subject: Subject) -> Iterator[Finding]:
    """Check that this device can take part in secure sums, and check the agent's report on them.

    Raises:
        ConfigError: if the device knows too few others and does not look for more.
    """
    config, status = subject.config, subject.status
    if config is None or config.cell is None:
        return
    check_cell(config)
    cell = config.cell
    yield ok(
        f"a sum of {cell.least} devices is opened by {cell.opens_at(cell.least)}; {cell.colluding} may collude; "
        f"{cell.spare} failed {'sum is' if cell.spare == 1 else 'sums are'} paid for"
    )
    if status is None:
        return
    if (known := len(status["peers"]) + 1) < cell.least:
        yield warning(
            f"it knows {known} of the {cell.least} devices that a secure sum needs",
            "start the others, list them under transport.peers, or set privacy.cell.min to fewer on all devices",
        )
    if status.get("dishonest"):
        yield warning(
            f"it takes part in no secure sum with {status['dishonest']}",
            "see to that device; if it is not yours any more, `sottovoce fleet revoke` it",
        )
