"""Codec for the durable state of a device that mixes contributions."""

from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.messages import rank
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.contributions.wire import from_wire, to_wire
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import read_numbers, write_numbers
from sottovoce.wire.v1 import contributions_pb2


class ContributionsCodec:
    """State codec for devices that mix contributions; implements StateCodec."""

    def __init__(self, learner: Mixer) -> None:
        self._learner = learner
        self._size = learner.schedule.width

    def encode(self, state: ContributionsState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        saved = contributions_pb2.ContributionsState(
            cycle=state.cycle,
            step=state.step,
            variation=state.variation,
            exhausted=state.exhausted,
            turn=state.turn,
            held=to_wire(
                contribution for _, contribution in sorted({**state.frozen_contributions, **state.held}.items())
            ),
        )
        write_numbers(saved, state.numerator)
        return saved.SerializeToString()

    def decode(self, raw: bytes) -> ContributionsState:
        """Decode a state; see StateCodec.decode. If the mixing has changed, start over from the ledger's releases."""
        saved = contributions_pb2.ContributionsState.FromString(raw)
        if not saved.size:
            return self._learner.fresh()
        try:
            numerator, contributions = read_numbers(saved), from_wire(saved.held)
        except MessageRefused as error:
            raise ValueError(f"the contributions are invalid: {error}") from error
        for numbers in (numerator, *(contribution.numerator for contribution in contributions)):
            if numbers.size != self._size:
                raise OtherModel(numbers.size, self._size)
        return ContributionsState(
            numerator=numerator,
            held={rank(contribution.owner): contribution for contribution in contributions},
            cycle=saved.cycle,
            step=saved.step,
            variation=saved.variation,
            exhausted=saved.exhausted,
            turn=saved.turn,
        )
