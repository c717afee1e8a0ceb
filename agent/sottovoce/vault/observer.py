"""Observation of simulated vaults, to compare a learner step by step with its paper; no device has an observer.

An observer's view is private: the records of a batch, an un-noised model. It is attached only to a vault with seeded
noise, whose releases the wire refuses.
"""

from typing import Any, Protocol

from sottovoce.door import Query


class Observer(Protocol):
    """Receiver of a simulated vault's intermediate results."""

    def computed(self, query: Query, facts: dict[str, Any]) -> None:
        """Receive the facts of a release that was made for a query.

        Args:
            query: the query that was asked.
            facts: `batch` (places of the records read; None for all), `value` (float, the release), and further facts
                that the program adds; JSON-ready.
        """
        ...
