"""Keepers: peers that store a ledger's latest position and are listed in the ledger itself."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keeper:
    """A peer that receives every new position of the ledger and is asked for the latest one at every start.

    Attributes:
        node: the keeper's node id.
        endpoints: last known addresses of the keeper, in the order in which to try them.
    """

    node: str
    endpoints: tuple[str, ...]


def encode_keepers(keepers: tuple[Keeper, ...]) -> str:
    """Encode keepers in the form in which the ledger stores them."""
    return json.dumps([[keeper.node, *keeper.endpoints] for keeper in keepers], separators=(",", ":"))


def parse_keepers(text: str) -> tuple[Keeper, ...]:
    """Parse keepers from the form in which the ledger stores them; see `encode_keepers`.

    Raises:
        ValueError: if the text is not in this form.
    """
    entries = json.loads(text)
    if not isinstance(entries, list) or not all(_is_keeper(entry) for entry in entries):
        raise ValueError("not a keeper list")
    return tuple(Keeper(node, tuple(endpoints)) for node, *endpoints in entries)


def _is_keeper(entry: object) -> bool:
    """Return whether the entry is a list of a node id and at least one endpoint."""
    return isinstance(entry, list) and len(entry) > 1 and all(isinstance(part, str) for part in entry)
