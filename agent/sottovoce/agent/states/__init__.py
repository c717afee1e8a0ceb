"""The durable part of each learner's state, as bytes."""

from sottovoce.agent.states.codec import OtherModel, StateCodec, saved_model

__all__ = ["OtherModel", "StateCodec", "saved_model"]
