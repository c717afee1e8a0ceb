"""Keepers of a ledger's newest head: a few peers, named in the ledger itself."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keeper:
    """Peer that receives every head, and is asked for it at every start.

    Attributes:
        node: node id of the keeper.
        endpoints: its last known addresses, the one to try first at the front.
    """

    node: str
    endpoints: tuple[str, ...]


def encode_keepers(keepers: tuple[Keeper, ...]) -> str:
    """Return keepers in the ledger's form."""
    return json.dumps([[keeper.node, *keeper.endpoints] for keeper in keepers], separators=(",", ":"))


def parse_keepers(text: str) -> tuple[Keeper, ...]:
    """Parse keepers from the ledger's form: see `encode_keepers`.

    Raises:
        ValueError: if the text is not in this form.
    """
    found = json.loads(text)
    if not isinstance(found, list) or not all(_is_keeper(one) for one in found):
        raise ValueError("not a list of keepers")
    return tuple(Keeper(node, tuple(endpoints)) for node, *endpoints in found)


def _is_keeper(found: object) -> bool:
    """Return whether a value is a node with at least one endpoint."""
    return isinstance(found, list) and len(found) > 1 and all(isinstance(part, str) for part in found)
