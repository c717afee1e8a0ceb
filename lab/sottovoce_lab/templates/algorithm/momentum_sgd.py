"""Decentralised SGD with momentum, in rounds."""

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta
from sottovoce.plugin import Floats, RoundsSettings, Rule, Work, rounds_algorithm, settings_of


class MomentumSgdSettings(RoundsSettings, frozen=True, tag="momentum-sgd"):
    """Keys under `[learner]`, added to those of every algorithm in rounds. The tag is the learner's name."""

    momentum: Annotated[float, Meta(ge=0, lt=1, description="share of the last direction that is kept, β")] = 0.0


@dataclass(frozen=True, slots=True)
class MomentumSgd:
    """Algorithm that sends its model, one vector per message, and requests one gradient. `Work.direction` is u."""

    momentum: float
    widths: tuple[int, ...] = (1,)
    questions: int = 1

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        return None if 0 in work.answers else (0, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        return replace(work.answered(position, gradient), direction=self.momentum * work.direction + gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        mixed = work.mixing.average(work.model, work.first(0))
        return replace(work, model=mixed - work.rate * work.direction if 0 in work.answers else mixed)


ALGORITHM = rounds_algorithm(
    MomentumSgdSettings,
    lambda: Rule(lambda config, kernel, public: MomentumSgd(settings_of(config, MomentumSgdSettings).momentum)),
    audit={"learner.momentum": 0.0},
)
