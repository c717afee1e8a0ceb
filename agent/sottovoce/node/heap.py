"""Memory savings for small devices: use one heap, and release freed memory that the C library retains."""

import ctypes

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)


def use_single_arena() -> None:
    """Make all threads share one heap from now on, because this program's threads rarely allocate concurrently."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc only
        library.mallopt(_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Return memory that was freed during startup to the operating system."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # glibc only
        library.malloc_trim(0)
