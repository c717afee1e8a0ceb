"""Terms of the variants exactly as in the papers, which the package sottovoce-lab contains."""

from importlib import import_module
from typing import cast

from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError
from sottovoce.plugins.workstation import INSTALL, LAB, is_installed
from sottovoce.privacy.terms import Terms


def published_terms(family: str, config: AgentConfig, *arguments: int) -> Terms:
    """Return the terms of a learner with `fidelity = "paper"`.

    Args:
        family: the family's module in the lab's package `published`.
        config: the device's configuration.
        arguments: further arguments of that module's `published_terms`.

    Raises:
        ConfigError: if the lab is not installed.
    """
    if not is_installed(LAB):
        raise ConfigError(
            f'learner.fidelity: the "paper" variant of {config.learner.name} has no proved guarantee and is part of '
            f"the package sottovoce-lab for workstations, which is not installed here; remove the key, or run {INSTALL}"
        )
    return cast(Terms, import_module(f"{LAB}.published.{family}").published_terms(config, *arguments))
