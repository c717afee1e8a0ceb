"""Registry entries for one shared model updated in turn (Jin, He & Dai 2023): without- and with-replacement."""

from typing import Any

from sottovoce.plugin import Algorithm, Relation

from sottovoce_papers.jin_2023.settings import (
    SharedModelSettings,
    WithoutReplacementSettings,
    WithReplacementSettings,
)


def _parts(config: Any, public: Any) -> Any:
    from sottovoce_papers.jin_2023.parts import build_parts

    return build_parts(config)


def _wire() -> Any:
    from sottovoce_papers.jin_2023 import codec

    return codec


def _relation(settings: SharedModelSettings) -> Relation:
    controller, every = settings.control
    uses_chains = every != 1 or controller == "always-global"  # on disjoint batches, for which there is no other bound
    fixed_size = settings.fidelity == "paper"  # a fixed size reveals the count
    return "replace-one" if uses_chains or fixed_size else "add-remove"


def _algorithm(**attributes: Any) -> Algorithm:
    return Algorithm(
        parts=_parts,
        paper_status="refuted",
        record_level=True,
        one_member="replaces the model",
        topology="full",
        has_initiator=True,
        payloads={"shared-model-message/1": _wire},
        audit={"data.features": 256, "data.classes": 2},
        relation=_relation,
        **attributes,
    )


WITHOUT_REPLACEMENT = _algorithm(
    settings=WithoutReplacementSettings,
    releases="the shared model after steps along noisy gradients of batches that are used once",
)
WITH_REPLACEMENT = _algorithm(
    settings=WithReplacementSettings,
    releases="the shared model after steps along noisy gradients of random batches",
)
