"""Observation of simulated vaults, for comparing a learner step by step with its paper; devices have no observer.

An observer sees private data, such as the records in a batch or a noise-free model. It may be attached only to a
vault with seeded noise, whose releases the wire layer refuses.
"""

from typing import Any, Protocol

from sottovoce.privacy.api import Query


class Observer(Protocol):
    """Interface of an object that receives a simulated vault's intermediate results."""

    def record_computed(self, query: Query, facts: dict[str, Any]) -> None:
        """Receive the facts about the release for a query.

        Args:
            query: the query.
            facts: JSON-serialisable values: `batch` (positions of the records read; None for all), `value` (the
                release, as floats), and further facts that the program adds.
        """
        ...
