"""Registry entries for push-sum SGD: push-sum and clipd2p."""

from typing import Any, Literal

from sottovoce.algorithms.push_sum.settings import ClipD2pSettings, PushSumSettings
from sottovoce.learning.registry import Algorithm, Relation, by_name


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.push_sum.parts import build_parts

    return build_parts(config)


def _steps(config: Any) -> int:
    from sottovoce.algorithms.push_sum.step_count import step_count

    return step_count(config)


def _centre(config: Any) -> str:
    from sottovoce.algorithms.push_sum.centring import record_sum

    return "none" if record_sum(config) is None else "private"


def share_codec() -> Any:
    """Return the codec of push-sum shares."""
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


_AUDIT = {"data.features": 256, "data.classes": 2}


def _push_sum_algorithm(**attributes: Any) -> Algorithm:
    return Algorithm(
        parts=_parts,
        relation=_relation,
        steps=_steps,
        regression=True,
        one_member="costs up to 12 points with contributions, the default; ruins every model with any other mixing",
        payloads={
            "push-sum-share/1": share_codec,
            "pairwise-proposal/1": _proposals,
            "pairwise-move/1": _moves,
            "contributions/1": _contributions,
        },
        **attributes,
    )


def noisy_sums_algorithm(
    settings: type[ClipD2pSettings], paper_status: Literal["as-published", "refuted"]
) -> Algorithm:
    """Return an algorithm that steps along noisy sums of clipped gradients and mixes models like clipd2p.

    Args:
        settings: the algorithm's settings, tagged with its name.
        paper_status: verdict on the paper's variant.
    """
    return _push_sum_algorithm(
        settings=settings,
        releases="shares of a model, each after a step along a noisy sum of clipped gradients",
        paper_status=paper_status,
        resolved={"centre": _centre},
        audit=_AUDIT,
    )


ALGORITHMS = by_name(
    noisy_sums_algorithm(ClipD2pSettings, "as-published"),
    _push_sum_algorithm(
        settings=PushSumSettings,
        releases="shares of a model, each after a step along the exact sum of gradients",
        noiseless=True,
        audit=_AUDIT,
    ),
)
