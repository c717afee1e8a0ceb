"""Packages beside the device's own: the lab and the operator's for workstations, and the one of papers."""

from importlib.util import find_spec

LAB = "sottovoce_lab"
OPERATOR = "sottovoce_operator"
PAPERS = "sottovoce_papers"
INSTALL = "pip install 'sottovoce[all]'"
"""Shell command that installs these packages and all their dependencies."""


def is_installed(package: str) -> bool:
    """Return whether one of these packages is installed."""
    return find_spec(package) is not None
