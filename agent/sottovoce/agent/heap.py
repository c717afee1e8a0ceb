"""Release to the system of freed memory that the C library retains, for the sake of small devices."""

import ctypes

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)


def use_single_arena() -> None:
    """Make threads share one heap from now on; this program's threads rarely allocate at the same time."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # of glibc
        library.mallopt(_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Return to the operating system the memory that the start has freed."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # of glibc
        library.malloc_trim(0)
