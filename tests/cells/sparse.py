"""Sparse graphs in cells of any size, so that attacks, liars and random faults play them in small fleets."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from sottovoce.privacy.secure_sum import neighbourhoods
from sottovoce.privacy.secure_sum.neighbourhoods import NeighbourhoodSize


@contextmanager
def sparse_graphs(size: NeighbourhoodSize | None = None) -> Iterator[None]:
    """Give cells of every size the smallest sparse graphs that their tails allow, or graphs with this size."""
    with (
        patch.object(neighbourhoods, "MAX_COMPLETE", 3),
        patch.object(neighbourhoods, "_K_STEP", 2),
        ExitStack() as stack,
    ):
        if size is not None:
            stack.enter_context(patch.object(neighbourhoods, "cell_neighbourhood_size", lambda *_: size))
        _forget_graphs()
        yield
    _forget_graphs()


def _forget_graphs() -> None:
    neighbourhoods.neighbourhoods.cache_clear()
    neighbourhoods.neighbourhood_size.cache_clear()
