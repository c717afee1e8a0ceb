"""Build the configured learner's Family, whether the learner ships with Sottovoce or comes from a plug-in."""

from typing import cast

from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig
from sottovoce.data import Records
from sottovoce.learning.registry import find_plugin
from sottovoce.plugins import plugin_errors


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
        return cast(Family, parts(config, public))
    with plugin_errors(plugin):
        family: object = parts(config, public)
    if not isinstance(family, Family):
        raise plugin.error(f"parts() returned an object of type {type(family).__name__}, not Family")
    return family
