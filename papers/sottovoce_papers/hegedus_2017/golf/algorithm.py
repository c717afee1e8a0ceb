"""Registry entry for `golf`: gossip learning on perturbed records (Hegedűs & Jelasity 2017)."""

from typing import Any

from sottovoce.plugin import Algorithm, share_codec

from sottovoce_papers.hegedus_2017.golf.settings import GolfSettings


def _parts(config: Any, public: Any) -> Any:
    from sottovoce_papers.hegedus_2017.golf.parts import build_parts

    return build_parts(config)


def _wire() -> Any:
    from sottovoce_papers.hegedus_2017.golf import codec

    return codec


ALGORITHM = Algorithm(
    settings=GolfSettings,
    releases="each record once, perturbed, and models computed from perturbed records",
    parts=_parts,
    models=("ridge", "pegasos", "logistic"),
    neighbouring="replace-one",
    paper_status="proved",
    paper_model="pegasos",
    record_level=True,
    scaled_by_training=True,
    one_member="adds at most data.expected_records false records; with push-sum it ruins every model",
    payloads={"golf-message/1": _wire, "push-sum-share/1": share_codec},
    audit={"data.features": 8, "data.classes": 3},
)
