"""Names for shell completion. Each function imports its dependencies only when it is called."""


def learners() -> list[str]:
    """Return the names of all learners."""
    from sottovoce.learning.registry import ALGORITHMS

    return list(ALGORITHMS)


def models() -> list[str]:
    """Return the names of all models that at least one learner supports."""
    from sottovoce.learning.registry import loaded_algorithms

    return sorted({model for algorithm in loaded_algorithms().values() for model in algorithm.models})


def data() -> list[str]:
    """Return the prefixes of data SPECs."""
    from sottovoce.data.spec import KINDS

    return [name if not kind.has_path else f"{name}:" for name, kind in KINDS.items()]


def topologies() -> list[str]:
    """Return the names of all topologies."""
    from sottovoce_lab.simulator.topology import TOPOLOGIES

    return list(TOPOLOGIES)


def experiments() -> list[str]:
    """Return the names of all built-in experiments and all learners."""
    from sottovoce_lab.experiments.builtins import names

    return sorted({*names(), *learners()})


def mechanisms() -> list[str]:
    """Return the names of all auditable mechanisms."""
    from sottovoce_lab.auditor.targets import MECHANISMS

    return list(MECHANISMS)


def reproductions() -> list[str]:
    """Return the names of all papers, and of their figures and tables."""
    from sottovoce_lab.papers.specification import experiments, papers

    return [*papers(), *experiments()]


def templates() -> list[str]:
    """Return the names of all templates for `sottovoce init`."""
    from sottovoce_lab.templates import templates

    return templates()
