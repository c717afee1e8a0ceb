"""Health page of a device, with one finding per check."""

import json
from collections.abc import Mapping

from sottovoce.observe.answerer import Page

OK = "ok"
JSON = "application/json"


def health(findings: Mapping[str, str]) -> Page:
    """Return the page with the findings of the checks.

    Args:
        findings: each check's fault, by the name of the check; an empty string if there is none.

    Returns:
        status 200 when nothing is wrong, else 503, with every check and its finding as JSON.
    """
    healthy = not any(findings.values())
    document = {"healthy": healthy, "checks": {name: finding or OK for name, finding in findings.items()}}
    return Page(200 if healthy else 503, JSON, json.dumps(document).encode() + b"\n")
