"""Registry entries for push-sum SGD: push-sum, and AdaD²P's three learners in their sound variants."""

from typing import Any, Literal

from sottovoce.algorithms.push_sum.settings import (
    AdaD2pSettings,
    ClipD2pSettings,
    ConstD2pSettings,
    PushSumSettings,
)
from sottovoce.learning.registry import Algorithm, Relation, by_name


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.push_sum.parts import build_parts

    return build_parts(config)


def _steps(config: Any) -> int:
    from sottovoce.algorithms.push_sum.step_count import step_count

    return step_count(config)


def _wire() -> Any:
    from sottovoce.algorithms.push_sum import codec

    return codec


def _contributions() -> Any:
    from sottovoce.algorithms.contributions import codec

    return codec


def _proposals() -> Any:
    from sottovoce.algorithms.pairwise.codec import Proposals

    return Proposals


def _moves() -> Any:
    from sottovoce.algorithms.pairwise.codec import Moves

    return Moves


def _relation(settings: PushSumSettings) -> Relation:
    return "replace-one" if settings.fidelity == "paper" else "add-remove"  # a fixed size reveals the record count


def _push_sum_algorithm(**attributes: Any) -> Algorithm:
    return Algorithm(
        parts=_parts,
        relation=_relation,
        steps=_steps,
        regression=True,
        one_member="changes only its own part with contributions, the default; ruins every model with any other mixing",
        payloads={
            "push-sum-share/1": _wire,
            "pairwise-proposal/1": _proposals,
            "pairwise-move/1": _moves,
            "contributions/1": _contributions,
        },
        audit={"data.features": 256, "data.classes": 2},
        **attributes,
    )


def _noisy_algorithm(settings: type[ClipD2pSettings], paper_status: Literal["as-published", "refuted"]) -> Algorithm:
    return _push_sum_algorithm(
        settings=settings,
        releases="shares of a model, each after a step along a noisy sum of clipped gradients",
        paper_status=paper_status,
    )


ALGORITHMS = by_name(
    _noisy_algorithm(ClipD2pSettings, "as-published"),
    _push_sum_algorithm(
        settings=PushSumSettings,
        releases="shares of a model, each after a step along the exact sum of gradients",
        noiseless=True,
    ),
    _noisy_algorithm(AdaD2pSettings, "refuted"),
    _noisy_algorithm(ConstD2pSettings, "refuted"),
)
