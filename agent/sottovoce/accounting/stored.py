"""Parse events from the canonical form in which ledgers store them."""

import json
from functools import lru_cache
from typing import Any

from sottovoce.accounting.events import CellSum, Event, GaussianSum, Moved, PureRelease, RecordReleased, Unproved
from sottovoce.accounting.units import Units
from sottovoce.errors import PrivacyError

_KINDS = {"gaussian-sum": GaussianSum, "record": RecordReleased, "pure-sum": PureRelease, "unproved": Unproved,
          "moved": Moved, "cell-sum": CellSum}  # fmt: skip


@lru_cache(maxsize=16)  # most ledgers contain the same terms many times
def event_of(terms: str) -> Event:
    """Return the event with these terms.

    Raises:
        PrivacyError: if they are not the canonical terms of any known event, because its cost is then unknown.
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
    from sottovoce.accounting.sampled import SampledGaussian  # most ledgers contain no such event

    return SampledGaussian(**fields)
