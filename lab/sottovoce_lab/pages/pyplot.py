"""Import matplotlib on demand, because only drawing needs it."""

import importlib
from typing import Any

from sottovoce.errors import UsageError


def pyplot() -> Any:
    """Return matplotlib.pyplot, configured to draw into SVG files.

    Raises:
        UsageError: if matplotlib is not installed.
    """
    try:
        matplotlib = importlib.import_module("matplotlib")
    except ImportError as error:
        raise UsageError(
            "plots need matplotlib, which is not installed: run pip install 'sottovoce[experiments]'"
        ) from error
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "sottovoce"
    return importlib.import_module("matplotlib.pyplot")
