"""Name of the package for workstations, which devices do not install."""

PACKAGE = "sottovoce_lab"
INSTALL = "pip install 'sottovoce[all]'"
"""Shell command that installs the package for workstations and all its dependencies."""
