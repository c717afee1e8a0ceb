"""Package for workstations, which devices do not install."""

from importlib.util import find_spec

PACKAGE = "sottovoce_lab"
INSTALL = "pip install 'sottovoce[all]'"
"""Shell command that installs the package for workstations and all its dependencies."""


def is_installed() -> bool:
    """Return whether the package for workstations is installed."""
    return find_spec(PACKAGE) is not None
