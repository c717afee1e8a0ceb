"""Dishonest devices in a simulated fleet: `--fault dishonest=SHARE@WHAT`.

Some dishonest devices add vectors to the model that differ from their vaults' answers (`flip`, `tenfold`, `noise`,
`zero`, `giant`), and do not shorten their steps as honest devices do. Apart from this, they follow the protocol, and
every invariant about messages holds. Other dishonest devices falsify the contributions that they sign or, in pairwise
averaging, their proposals and answers:

opposite   the opposite of the mean model
close      a vector displaced from the mean against the mean's direction, by the distance of a typical honest
           contribution; in pairwise averaging, the opposite of the model, with the greatest length that is accepted
little     the mean, moved by one standard deviation in each coordinate: "a little is enough" (Baruch, Baruch & Goldberg
           2019)
late       honest until all steps are taken, then like `close`, but only as far as other devices still accept
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.robust import lower_median
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import PairwiseState, Proposal
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT
from sottovoce.data import Records
from sottovoce.errors import UsageError
from sottovoce.learning.learners import Effect, Event, Learner, Received, Reply, Timer
from sottovoce.privacy.api import Answer, Query, Refused
from sottovoce.privacy.vault import Vault
from typing_extensions import override

from sottovoce_lab.simulator.altered_release import AlteredRelease
from sottovoce_lab.simulator.wrapped_vault import WrappedVault

_NOISE_FACTOR = 10.0  # length of the false noise, as a multiple of the length of the vault's answer
_MOVE_FRACTION = 0.9  # length of a false move, as a fraction of the longest move that an honest device accepts
Lie = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Maps other devices' contributions or models, float64[k, P], to the false vector."""

_GIANT = 2**31  # in a release's grid steps, which amounts to millions in a model but stays within the message limits


class LyingVault(WrappedVault):
    """A vault whose answers are altered before they reach the learner, except in secure sums, which the vault signs.

    Args:
        vault: the real vault.
        alter: maps the true value, int64[P], to the altered one, int64[P].
    """

    def __init__(self, vault: Vault, alter: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
        super().__init__(vault)
        self._alter = alter
        self._altered_values: dict[bytes, NDArray[np.int64]] = {}

    def answer(self, query: Query) -> Answer:
        """Return the altered answer, the same one if the query is repeated; see Vault.answer."""
        answer = self._vault.answer(query)
        if isinstance(answer, Refused):
            return answer
        if query.id not in self._altered_values:
            self._altered_values[query.id] = self._alter(answer.value)
        return AlteredRelease(
            query.id, self._altered_values[query.id], answer.step, answer.statement, answer.simulated, answer.units
        )


class LyingMixer(Mixer):
    """A device that signs false contributions, built from an honest device's state machine.

    Args:
        honest: the honest device's state machine.
        lie: maps the received contributions, float64[k, P], to the false one.
    """

    def __init__(self, honest: Mixer, lie: "Lie") -> None:
        self.__dict__.update(honest.__dict__)
        self._lie = lie

    @override
    def sign_contribution(self, state: ContributionsState) -> ContributionsState:
        others = _other_contributions(state, self.rank)
        return super().sign_contribution(state) if len(others) < 2 else self._signed_as(state, self._lie(others))

    def _signed_as(self, state: ContributionsState, vector: NDArray[np.float64]) -> ContributionsState:
        """Sign this vector instead of the device's own sum, which the returned state still contains."""
        numerator = np.rint(vector * UNIT).clip(-MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        return replace(super().sign_contribution(replace(state, numerator=numerator)), numerator=state.numerator)


class LateMixer(LyingMixer):
    """A device that falsifies only its last contribution, after all other devices have taken all their steps."""

    def sign_contribution(self, state: ContributionsState) -> ContributionsState:
        """Sign a last contribution that moves towards the lie as far as others accept; see Mixer.sign_contribution."""
        others, own_contribution = _other_contributions(state, self.rank), state.held.get(self.rank)
        if state.step < self.schedule.steps or own_contribution is None or len(others) < 2:
            return Mixer.sign_contribution(self, state)
        own_vector = own_contribution.numerator / UNIT
        median_length = lower_median(np.linalg.norm([own_vector, *others], axis=1))
        direction = self._lie(others) - own_vector
        max_move = _MOVE_FRACTION * self.acceptance.reach(
            own_contribution.steps, state.step, max(median_length, float(np.linalg.norm(own_vector)))
        )
        return self._signed_as(state, own_vector + direction * min(1.0, max_move / float(np.linalg.norm(direction))))

    def _is_due(self, state: ContributionsState) -> bool:
        """Return whether to sign now; the last contribution waits until all others have taken all their steps."""
        others = [contribution.steps for rank, contribution in state.held.items() if rank != self.rank]
        has_taken_all_steps = state.step >= self.schedule.steps
        return super()._is_due(state) and (not has_taken_all_steps or min(others, default=0) >= self.schedule.steps)


class LyingPairwise(Pairwise):
    """A device that sends a false model in proposals and answers, built from an honest device's state machine.

    Args:
        honest: the honest device's state machine.
        lie: maps the received models, float64[k, P], to the false model; all are relative to the start.
        lies_late: whether the device is honest until it has taken all its steps.
    """

    def __init__(self, honest: Pairwise, lie: "Lie", *, lies_late: bool = False) -> None:
        self.__dict__.update(honest.__dict__)
        self._lie = lie
        self._lies_late = lies_late
        self._received_models: dict[str, NDArray[np.float64]] = {}

    def on(self, state: PairwiseState, event: Event, now: float) -> tuple[PairwiseState, list[Effect]]:
        """Record the models that other devices propose, and compute the lie from them; see Learner.on."""
        if isinstance(event, Received) and isinstance(event.message, Proposal):
            self._received_models[event.sender] = event.message.numerator / UNIT
        honest = len(self._received_models) < 2 or (self._lies_late and state.step < self.schedule.steps)
        if honest or not isinstance(event, Timer | Received):
            return super().on(state, event, now)
        false_model = np.rint(self._lie(np.stack(list(self._received_models.values()))) * UNIT)
        false_model = false_model.clip(-MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        new_state, effects = super().on(replace(state, numerator=false_model), event, now)
        return replace(new_state, numerator=state.numerator), effects


class _SilentMixin:
    """A mixin that drops a learner's replies; it must precede the learner's own class in the list of bases."""

    def on(self, state: Any, event: Event, now: float) -> tuple[Any, list[Effect]]:
        """Handle the event, and drop any replies; see Learner.on."""
        state, effects = cast(Learner[Any], super()).on(state, event, now)
        return state, [effect for effect in effects if not isinstance(effect, Reply)]


def dishonest_vault(vault: Vault, lie: str, seed: int) -> Vault:
    """Return the vault for a dishonest device's learner, which alters answers if the lie is about answers."""
    random = np.random.default_rng(seed)

    def noise(value: NDArray[np.int64]) -> NDArray[np.int64]:
        scaled_noise = random.normal(size=value.shape) * _NOISE_FACTOR * np.sqrt((value.astype(np.float64) ** 2).mean())
        return cast(NDArray[np.int64], np.rint(scaled_noise).astype(np.int64))

    alter: dict[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]] = {
        "flip": lambda value: -value,
        "tenfold": lambda value: -10 * value,
        "noise": noise,
        "zero": np.zeros_like,
        "giant": lambda value: np.full_like(value, _GIANT),
    }
    return cast(Vault, LyingVault(vault, alter[lie])) if lie in alter else vault


def dishonest_records(records: Records, lie: str, classes: int) -> Records:
    """Return a dishonest device's training records; the lie `labels` replaces each label with the next class."""
    return replace(records, labels=(records.labels + 1) % classes) if lie == "labels" else records


def dishonest_learner(learner: Learner[Any], lie: str) -> Learner[Any]:
    """Return a dishonest device's state machine.

    Raises:
        UsageError: if this learner does not support the lie.
    """
    if lie == "silent":
        silent = copy(learner)
        silent.__class__ = type("Silent", (_SilentMixin, type(learner)), {})
        return silent
    if lie in _ANSWER_LIES and isinstance(learner, Mixer):
        undamped_learner = copy(learner)
        # With damping, varying lies would shorten the device's steps.
        undamped_learner.schedule = replace(learner.schedule, damping=None)
        return undamped_learner
    if lie not in _MESSAGE_LIES:
        return learner
    if isinstance(learner, Pairwise):
        farthest = min(learner.max_distance, MAX_NUMERATOR / UNIT)  # without noise, honest devices accept any move

        def close(models: NDArray[np.float64]) -> NDArray[np.float64]:
            mean = models.mean(axis=0)
            displaced: NDArray[np.float64] = mean * -max(0.0, _MOVE_FRACTION * farthest / max(_length(mean), 1e-12) - 1)
            return displaced

        return LyingPairwise(learner, {**_MESSAGE_LIES, "close": close, "late": close}[lie], lies_late=lie == "late")
    if not isinstance(learner, Mixer):
        raise UsageError(
            f"--fault dishonest=…@{lie}: this lie applies only to contributions and pairs; "
            "add --set learner.mixing=contributions"
        )
    return (LateMixer if lie == "late" else LyingMixer)(learner, _MESSAGE_LIES[lie])


def _other_contributions(state: ContributionsState, own_rank: int) -> NDArray[np.float64]:
    numerators = [contribution.numerator for rank, contribution in sorted(state.held.items()) if rank != own_rank]
    return np.array(numerators) / UNIT


def _length(vector: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(vector))


def _opposite(others: NDArray[np.float64]) -> NDArray[np.float64]:
    return cast(NDArray[np.float64], -others.mean(axis=0))


def _close(others: NDArray[np.float64]) -> NDArray[np.float64]:
    mean = others.mean(axis=0)
    distance = np.linalg.norm(others - mean, axis=1).mean()
    displaced: NDArray[np.float64] = mean - distance * mean / max(_length(mean), 1e-12)
    return displaced


def _little(others: NDArray[np.float64]) -> NDArray[np.float64]:
    mean = others.mean(axis=0)
    displaced: NDArray[np.float64] = mean - others.std(axis=0) * np.sign(mean)
    return displaced


_ANSWER_LIES = frozenset({"flip", "tenfold", "noise", "zero", "giant"})
_MESSAGE_LIES: dict[str, Lie] = {"opposite": _opposite, "close": _close, "little": _little, "late": _close}
