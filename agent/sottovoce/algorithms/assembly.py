"""Parts of the configured learner, which is either built into Sottovoce or provided by another package."""

from typing import cast

from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig
from sottovoce.data import Records
from sottovoce.registry import plugin_of


def family_of(config: AgentConfig, public: Records | None = None) -> Family:
    """Return the parts of the configured learner.

    Args:
        config: configuration of an agent.
        public: transformed records on which models are scored, instead of the records specified by data.public.

    Raises:
        PrivacyError: if the budget does not allow the learner's releases.
        PluginError: if the learner comes from a broken plug-in.
    """
    parts, plugin = config.learner.algorithm.parts, plugin_of(config.learner.name)
    if plugin is None:
        return cast(Family, parts(config, public))
    from sottovoce.algorithms.guarded_family import guarded_family

    return guarded_family(plugin, lambda: parts(config, public))
