"""A device's health page, with one finding per check."""

import json
from collections.abc import Mapping

from sottovoce.ops.page import Page

OK = "ok"
JSON = "application/json"


def health(findings: Mapping[str, str]) -> Page:
    """Return the health page for a set of findings.

    Args:
        findings: fault of each check, keyed by the name of the check; an empty string if there is no fault.

    Returns:
        A page with status 200 if there are no faults, otherwise 503, that lists every check and its finding as JSON.
    """
    healthy = not any(findings.values())
    document = {"healthy": healthy, "checks": {name: finding or OK for name, finding in findings.items()}}
    return Page(200 if healthy else 503, JSON, json.dumps(document).encode() + b"\n")
