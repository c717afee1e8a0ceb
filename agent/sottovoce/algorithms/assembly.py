"""Build the configured learner's Family, whether the learner ships with Sottovoce or comes from a plug-in."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig
from sottovoce.data import Records
from sottovoce.learning.registry import find_plugin
from sottovoce.plugins import plugin_errors
from sottovoce.plugins.workstation import PAPERS


def build_family(config: AgentConfig, public: Records | None = None) -> Family:
    """Return the parts of the configured learner.

    Args:
        config: the agent configuration.
        public: transformed records to score models on, used instead of the records in data.public.

    Raises:
        PrivacyError: if the budget does not cover the learner's releases.
        PluginError: if the learner comes from a plug-in that is broken.
    """
    parts, plugin = config.learner.algorithm.parts, find_plugin(config.learner.name)
    if plugin is None:
        return _without_changed_half(cast(Family, parts(config, public)))
    with plugin_errors(plugin):
        family: object = parts(config, public)
    if not isinstance(family, Family):
        raise plugin.error(f"parts() returned an object of type {type(family).__name__}, not Family")
    return _without_proof(
        family,
        lambda module: module.partition(".")[0] == "sottovoce",
        f"package {plugin.package} computes on records itself; if its learner asks for sums of one vector per record "
        "(RowSumTerms), the vault computes them and the ε is proved",
    )


def _without_changed_half(family: Family) -> Family:
    """Return our own learner's parts, whose terms state no proof if a paper's private half is not the one we played."""
    from sottovoce.privacy.terms.played import is_played

    return _without_proof(
        family,
        lambda module: module.partition(".")[0] != PAPERS or is_played(module),
        f"the files of {PAPERS} that compute on records are not those that our tests have played: "
        "reinstall the package",
    )


def _without_proof(family: Family, is_trusted: Callable[[str], bool], reason: str) -> Family:
    """Return the parts, whose terms state no proof if the module of what computes on records is not trusted.

    If a kernel clips and sums records, the vault trusts the bound that it states.
    """
    private_half = [family.terms] if family.kernel is None else [family.terms, family.kernel]
    if all(is_trusted(type(part).__module__) for part in private_half):
        return family
    from sottovoce.privacy.terms.rows import OutsideTerms

    return replace(family, terms=OutsideTerms(family.terms, reason))
