"""Registry entry for `gradient-walk`: gossip learning by gradient perturbation (Hegedűs & Jelasity 2017)."""

from typing import Any

from sottovoce.plugin import Algorithm

from sottovoce_papers.hegedus_2017.gradient_walk.settings import GradientWalkSettings


def _parts(config: Any, public: Any) -> Any:
    from sottovoce_papers.hegedus_2017.gradient_walk.parts import build_parts

    return build_parts(config)


def _wire() -> Any:
    from sottovoce_papers.hegedus_2017.gradient_walk import codec

    return codec


ALGORITHM = Algorithm(
    settings=GradientWalkSettings,
    releases="the visiting model after a step along a noisy gradient",
    parts=_parts,
    models=("pegasos", "logistic"),
    neighbouring="replace-one",
    paper_status="proved",
    record_level=True,
    scaled_by_training=True,
    has_initiator=True,
    one_member="replaces any model that visits it",
    payloads={"gradient-walk-message/1": _wire},
    audit={"data.features": 256, "data.classes": 3},
)
