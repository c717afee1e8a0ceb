"""Who keeps a ledger's newest head: a few peers, named in the ledger itself."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keeper:
    """A peer that is told every head, and asked for it at every start.

    Attributes:
        node: its node id.
        endpoints: where it was last, the address to try first at the front.
    """

    node: str
    endpoints: tuple[str, ...]


def written(keepers: tuple[Keeper, ...]) -> str:
    """As the ledger holds them."""
    return json.dumps([[keeper.node, *keeper.endpoints] for keeper in keepers], separators=(",", ":"))


def read(text: str) -> tuple[Keeper, ...]:
    """See `written`.

    Raises:
        ValueError: it is nothing of the kind.
    """
    return tuple(Keeper(str(node), tuple(map(str, endpoints))) for node, *endpoints in json.loads(text))
