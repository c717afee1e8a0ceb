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
mimic      another device's contribution or model, which thereby counts twice (Karimireddy, He & Jaggi 2022)
ascent, class, trigger   vectors of the greatest length that counts, in the direction that serves the aim most at the
           mean of the others' contributions or models (simulator.informed); each moves as far as others still accept

With `ascent-answers`, `class-answers` and `trigger-answers`, a device replaces its vault's answers by vectors of the
same length in that direction at the point of the query. In secure sums, whose parts the vault adds up, its vault's
model returns a full batch of clipped gradients in that direction.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.robust import LONGEST, lower_median
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import PairwiseState, Proposal
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT
from sottovoce.data import Records
from sottovoce.errors import UsageError
from sottovoce.kernels.decentralised.centring import Coordinates
from sottovoce.kernels.kernel import Kernel
from sottovoce.learning.learners import Effect, Event, Learner, Received, Reply, Timer
from sottovoce.privacy.api import Answer, Query, Refused
from sottovoce.privacy.vault import Vault
from typing_extensions import override

from sottovoce_lab.simulator.altered_release import AlteredRelease
from sottovoce_lab.simulator.informed import AIMS, Aim, build_aim
from sottovoce_lab.simulator.wrapped_vault import WrappedVault

_NOISE_FACTOR = 10.0  # length of the false noise, as a multiple of the length of the vault's answer
_MOVE_FRACTION = 0.9  # length of a false move, as a fraction of the longest move that an honest device accepts
_BISECTIONS = 12
_UNCLIPPED = 1e6  # length of a false gradient before clipping
_ANSWERS = "-answers"
Alteration = Callable[[Query, NDArray[np.int64]], NDArray[np.int64]]
"""Maps a query and the vault's answer, int64[P], to the false answer."""
Lie = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Maps other devices' contributions or models, float64[k, P], to the false vector."""

_GIANT = 2**31  # in a release's grid steps, which amounts to millions in a model but stays within the message limits


class LyingVault(WrappedVault):
    """A vault whose answers are altered before they reach the learner, except in secure sums, which the vault signs.

    Args:
        vault: the real vault.
        alter: maps the query and the true value to the altered one.
    """

    def __init__(self, vault: Vault, alter: Alteration) -> None:
        super().__init__(vault)
        self._alter = alter
        self._altered_values: dict[bytes, NDArray[np.int64]] = {}

    def answer(self, query: Query) -> Answer:
        """Return the altered answer, the same one if the query is repeated; see Vault.answer."""
        answer = self._vault.answer(query)
        if isinstance(answer, Refused):
            return answer
        if query.id not in self._altered_values:
            self._altered_values[query.id] = self._alter(query, answer.value)
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
        if len(others) < 2:
            return super().sign_contribution(state)
        coordinates = self._comparison(state)
        return self._signed_as(
            state, self._false_contribution(_compared(others, coordinates), coordinates), coordinates
        )

    def _comparison(self, state: ContributionsState) -> Coordinates | None:
        """Return the coordinates in which others compare and combine contributions; None for those of records."""
        return None if self.shared_mean is None else self.shared_mean.coordinates(state, self._owner)

    def _false_contribution(self, others: NDArray[np.float64], coordinates: Coordinates | None) -> NDArray[np.float64]:
        """Return the false contribution, float64[P], in the coordinates in which the others are given."""
        return self._lie(others)

    def _signed_as(
        self, state: ContributionsState, vector: NDArray[np.float64], coordinates: Coordinates | None
    ) -> ContributionsState:
        """Sign this vector instead of the device's own sum, which the returned state still contains."""
        if coordinates is not None:
            vector = coordinates.from_centred(vector)
        numerator = np.rint(vector * UNIT).clip(-MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        return replace(super().sign_contribution(replace(state, numerator=numerator)), numerator=state.numerator)


class MovingMixer(LyingMixer):
    """A device whose false contributions move towards the lie as far as others accept."""

    @override
    def sign_contribution(self, state: ContributionsState) -> ContributionsState:
        others, own_contribution = _other_contributions(state, self.rank), state.held.get(self.rank)
        if own_contribution is None or len(others) < 2:
            return super().sign_contribution(state)
        coordinates = self._comparison(state)
        others, own_vector = (_compared(values, coordinates) for values in (others, own_contribution.numerator / UNIT))
        median_length = lower_median(np.linalg.norm([own_vector, *others], axis=1))
        length = max(median_length, _length(own_vector))
        move = self._false_contribution(others, coordinates) - own_vector

        def is_accepted(share: float) -> bool:
            steps = own_contribution.steps, max(state.step, own_contribution.steps + 1)
            return self.acceptance.excess(share * move, *steps, length) <= _MOVE_FRACTION

        return self._signed_as(state, own_vector + _largest_accepted(is_accepted) * move, coordinates)


class AimedMixer(MovingMixer):
    """A device whose false contributions serve an aim, with the greatest length that counts.

    Args:
        honest: the honest device's state machine.
        aim: the liar's aim.
    """

    def __init__(self, honest: Mixer, aim: Aim) -> None:
        self.__dict__.update(honest.__dict__)
        self._aim = aim

    @override
    def _false_contribution(self, others: NDArray[np.float64], coordinates: Coordinates | None) -> NDArray[np.float64]:
        length = LONGEST * lower_median(np.linalg.norm(others, axis=1))
        model = _compared(self._start, coordinates) - others.mean(axis=0)
        served: NDArray[np.float64] = -length * self._aim.direction(model, coordinates)
        return served


class LateMixer(MovingMixer):
    """A device that falsifies only its last contribution, after all other devices have taken all their steps."""

    def sign_contribution(self, state: ContributionsState) -> ContributionsState:
        """Sign a last contribution that moves towards the lie as far as others accept; see Mixer.sign_contribution."""
        if state.step < self.schedule.steps:
            return Mixer.sign_contribution(self, state)
        return super().sign_contribution(state)

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


class LyingKernel:
    """A vault's model whose batches of gradients all point in a liar's direction.

    Args:
        kernel: the fleet's model.
        aim: the liar's aim.
    """

    def __init__(self, kernel: Kernel, aim: Aim) -> None:
        self._kernel, self._aim = kernel, aim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def clipped_gradient_sum(
        self, parameters: NDArray[np.float64], features: NDArray[np.float64], labels: NDArray[np.int64], clip: float
    ) -> NDArray[np.float64]:
        """Return the sum of a batch of gradients of length `clip`; see Kernel."""
        total: NDArray[np.float64] = -self._aim.direction(parameters) * clip * len(labels)
        return total

    def gradients(
        self, parameters: NDArray[np.float64], features: NDArray[np.float64], labels: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return gradients that the vault clips to their greatest length, float64[N, B, P]; see Kernel."""
        rows = [-_UNCLIPPED * self._aim.direction(model) for model in parameters]
        return np.repeat(np.stack(rows)[:, np.newaxis], labels.shape[1], axis=1)


def dishonest_kernel(kernel: Kernel | None, lie: str, records: Records, classes: int) -> Kernel:
    """Return the model in the vault of a dishonest device whose lie is about answers in secure sums."""
    aim = build_aim(_aim_of(lie), kernel, records, classes)
    return cast(Kernel, LyingKernel(aim.kernel, aim))


def dishonest_vault(vault: Vault, lie: str, seed: int, kernel: Kernel | None, records: Records, classes: int) -> Vault:
    """Return the vault for a dishonest device's learner, which alters answers if the lie is about answers."""
    random = np.random.default_rng(seed)

    def noise(_: Query, value: NDArray[np.int64]) -> NDArray[np.int64]:
        scaled_noise = random.normal(size=value.shape) * _NOISE_FACTOR * np.sqrt((value.astype(np.float64) ** 2).mean())
        return cast(NDArray[np.int64], np.rint(scaled_noise).astype(np.int64))

    alter: dict[str, Alteration] = {
        "flip": lambda _, value: -value,
        "tenfold": lambda _, value: -10 * value,
        "noise": noise,
        "zero": lambda _, value: np.zeros_like(value),
        "giant": lambda _, value: np.full_like(value, _GIANT),
    }
    if lie.endswith(_ANSWERS):
        aim = build_aim(_aim_of(lie), kernel, records, classes)

        def towards_the_aim(query: Query, value: NDArray[np.int64]) -> NDArray[np.int64]:
            if query.kind != "gradient":
                return value
            altered = value.copy()
            size = aim.kernel.size
            mean = query.point[size:]  # empty unless the vault centres the records
            coordinates = Coordinates(mean, float(records.features[0, -1])) if len(mean) else None
            direction = aim.direction(query.point[:size], coordinates)
            altered[:size] = np.rint(-direction * np.linalg.norm(value.astype(np.float64)))
            return altered

        alter[lie] = towards_the_aim
    return cast(Vault, LyingVault(vault, alter[lie])) if lie in alter else vault


def dishonest_records(records: Records, lie: str, classes: int) -> Records:
    """Return a dishonest device's training records; the lie `labels` replaces each label with the next class."""
    return replace(records, labels=(records.labels + 1) % classes) if lie == "labels" else records


def dishonest_learner(
    learner: Learner[Any], lie: str, kernel: Kernel | None, records: Records, classes: int
) -> Learner[Any]:
    """Return a dishonest device's state machine.

    Args:
        learner: the honest device's state machine.
        lie: one of LIES.
        kernel: the fleet's model.
        records: the dishonest device's own training records.
        classes: the number of classes; 1 for a regression.

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
    if lie not in _MESSAGE_LIES and lie not in AIMS:
        return learner
    aim = build_aim(lie, kernel, records, classes) if lie in AIMS else None
    if isinstance(learner, Pairwise):
        farthest = min(learner.max_distance, MAX_NUMERATOR / UNIT)  # without noise, honest devices accept any move

        def close(models: NDArray[np.float64]) -> NDArray[np.float64]:
            mean = models.mean(axis=0)
            displaced: NDArray[np.float64] = mean * -max(0.0, _MOVE_FRACTION * farthest / max(_length(mean), 1e-12) - 1)
            return displaced

        lies = {**_MESSAGE_LIES, "close": close, "late": close}
        if aim is not None:
            lies[lie] = _displace(aim, _MOVE_FRACTION * farthest)
        return LyingPairwise(learner, lies[lie], lies_late=lie == "late")
    if not isinstance(learner, Mixer):
        raise UsageError(
            f"--fault dishonest=…@{lie}: this lie applies only to contributions and pairs; "
            + (f"use {lie}{_ANSWERS}" if lie in AIMS else "add --set learner.mixing=contributions")
        )
    if aim is not None:
        return AimedMixer(learner, aim)
    return (LateMixer if lie == "late" else LyingMixer)(learner, _MESSAGE_LIES[lie])


def _displace(aim: Aim, distance: float) -> Lie:
    """Return the lie that serves an aim with a model as far from the others' mean as is accepted."""

    def lie(models: NDArray[np.float64]) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = models.mean(axis=0)
        return mean + distance * aim.direction(mean)

    return lie


def _compared(vectors: NDArray[np.float64], coordinates: Coordinates | None) -> NDArray[np.float64]:
    """Return contributions, float64[..., P], in the coordinates in which others compare them."""
    return vectors if coordinates is None else coordinates.to_centred(vectors)


def _aim_of(lie: str) -> str:
    return lie.removesuffix(_ANSWERS)


def _largest_accepted(is_accepted: Callable[[float], bool]) -> float:
    """Return the largest share of a move that is accepted, up to 1, by bisection."""
    if is_accepted(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_accepted(middle) else (low, middle)
    return low


def _other_contributions(state: ContributionsState, own_rank: int) -> NDArray[np.float64]:
    numerators = [contribution.numerator for rank, contribution in sorted(state.held.items()) if rank != own_rank]
    return np.array(numerators) / UNIT


def _length(vector: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(vector))


def _mimic(others: NDArray[np.float64]) -> NDArray[np.float64]:
    first: NDArray[np.float64] = others[0]
    return first


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


_ANSWER_LIES = frozenset({"flip", "tenfold", "noise", "zero", "giant", *(aim + _ANSWERS for aim in AIMS)})
_MESSAGE_LIES: dict[str, Lie] = {
    "opposite": _opposite,
    "close": _close,
    "little": _little,
    "late": _close,
    "mimic": _mimic,
}
