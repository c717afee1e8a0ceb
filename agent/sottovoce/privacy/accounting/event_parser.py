"""Parse events from the canonical JSON that ledgers store."""

import json
from functools import lru_cache
from typing import Any

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import (
    CellSum,
    Event,
    GaussianSum,
    LedgerMove,
    PureRelease,
    RecordReleased,
    UnprovedRelease,
)
from sottovoce.privacy.accounting.units import Units

_KINDS = {"gaussian-sum": GaussianSum, "record": RecordReleased, "pure-sum": PureRelease, "unproved": UnprovedRelease,
          "moved": LedgerMove, "cell-sum": CellSum}  # fmt: skip


@lru_cache(maxsize=16)  # most ledgers contain the same terms many times
def parse_event(terms: str) -> Event:
    """Parse a charge's canonical JSON.

    Raises:
        PrivacyError: if the text is not the canonical JSON of a known event, so its cost is unknown.
    """
    try:
        fields = json.loads(terms)
        kind = fields.pop("event")
        if "epsilon" in fields:
            fields["epsilon"] = float(fields["epsilon"])
        if "units" in fields:
            spans = fields["units"]["spans"]
            fields["units"] = Units(tuple((int(first), int(last)) for first, last in spans))
        if kind == "sampled-gaussian":  # imported on demand, since few ledgers contain such events
            event: Event = _sampled_event(fields)
        else:
            event = _KINDS[kind](**fields)
        if event.terms != terms:
            raise ValueError("not canonical")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PrivacyError(
            f"a charge has unknown terms, `{terms[:80]}`, so its cost cannot be computed; use the program "
            "version that wrote it"
        ) from error
    return event


def _sampled_event(fields: dict[str, Any]) -> Event:
    from sottovoce.privacy.accounting.sampled import SampledGaussian  # most ledgers contain no such event

    return SampledGaussian(**fields)
