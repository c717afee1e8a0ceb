"""What dishonest members of a fleet do: `--fault dishonest=SHARE@WHAT`.

Some put something other than their vaults' answers into the model; what they do with it is as honest as ever, so that
every law about messages holds. Others lie about the sum of it, which is theirs to sign. `close` knows what all others
have contributed, and steps as far against the mean of that as an honest device is off it: no distance shows it; where
models are averaged in pairs it tells everybody the opposite of theirs.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.pairwise.public.machine import Pairwise, length
from sottovoce.algorithms.pairwise.public.messages import Proposal
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT
from sottovoce.data import Records
from sottovoce.door import Answer, PrivacyStatement, Query, Refused
from sottovoce.errors import UsageError
from sottovoce.learners import Effect, Event, Learner, Received, Reply, Timer
from sottovoce.vault import Spending, Vault

from sottovoce_lab.simulate.told import Told

_LOUD = 10.0  # times what the vault's answer is long
_NEAR = 0.9  # of what an honest device goes along with
_GIANT = 2**31  # on the grid of releases: millions in a model, and within what messages may hold


class LyingVault:
    """A vault of which its own device tells its learner something else.

    Args:
        vault: the real one.
        alter: makes int64[P] of int64[P].
    """

    def __init__(self, vault: Vault, alter: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
        self._vault = vault
        self._alter = alter
        self._told: dict[bytes, NDArray[np.int64]] = {}

    @property
    def statement(self) -> PrivacyStatement:
        """Of the real one."""
        return self._vault.statement

    def spending(self) -> Spending:
        """Of the real one."""
        return self._vault.spending()

    def answer(self, query: Query) -> Answer:
        """The same to the same question."""
        answer = self._vault.answer(query)
        if isinstance(answer, Refused):
            return answer
        if query.id not in self._told:
            self._told[query.id] = self._alter(answer.value)
        return Told(query.id, self._told[query.id], answer.step, answer.statement, answer.simulated, answer.units)


class LyingMixer(Mixer):
    """A device that signs as its contribution whatever serves it; made of an honest one."""

    def __init__(self, honest: Mixer, lie: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
        self.__dict__.update(honest.__dict__)
        self._lie = lie

    def signed(self, state: ContributionsState) -> ContributionsState:
        """See Mixer.signed."""
        others = [one.numerator for at, one in sorted(state.held.items()) if at != self.rank]
        if state.step == 0 or len(others) < 2:
            return state
        numerator = np.rint(self._lie(np.stack(others) / UNIT) * UNIT).clip(-MAX_NUMERATOR, MAX_NUMERATOR)
        kept = {at: one for at, one in state.held.items() if at != self.rank}
        lied = super().signed(replace(state, numerator=numerator.astype(np.int64), held=kept))
        return replace(lied, numerator=state.numerator)


class LyingPairwise(Pairwise):
    """A device that tells everybody the opposite of the model, as long as may be; made of an honest one."""

    def __init__(self, honest: Pairwise) -> None:
        self.__dict__.update(honest.__dict__)

    def on(self, state: PairwiseState, event: Event, now: float) -> tuple[PairwiseState, list[Effect]]:
        """See Learner.on. What it believes itself is what others tell it."""
        match event:
            case Timer():
                known = state.numerator
            case Received(_, Proposal(numerator)):
                known = numerator
            case _:
                return super().on(state, event, now)
        far = max(0.0, _NEAR * self.farthest / max(length(known), 1 / UNIT) - 1)
        lied, effects = super().on(replace(state, numerator=np.rint(known * -far).astype(np.int64)), event, now)
        return replace(lied, numerator=known), effects


class _Silence:
    """Says nothing of what a learner says; in front of its class."""

    def on(self, state: Any, event: Event, now: float) -> tuple[Any, list[Effect]]:
        """See Learner.on."""
        state, effects = cast(Learner[Any], super()).on(state, event, now)
        return state, [effect for effect in effects if not isinstance(effect, Reply)]


def dishonest_vault(vault: Vault, lie: str, seed: int) -> Vault:
    """The vault as a dishonest device shows it to its learner."""
    random = np.random.default_rng(seed)

    def noise(value: NDArray[np.int64]) -> NDArray[np.int64]:
        loud = random.normal(size=value.shape) * _LOUD * np.sqrt((value.astype(np.float64) ** 2).mean())
        return cast(NDArray[np.int64], np.rint(loud).astype(np.int64))

    alter: dict[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]] = {
        "flip": lambda value: -value,
        "tenfold": lambda value: -10 * value,
        "noise": noise,
        "zero": np.zeros_like,
        "giant": lambda value: np.full_like(value, _GIANT),
    }
    return cast(Vault, LyingVault(vault, alter[lie])) if lie in alter else vault


def dishonest_records(records: Records, lie: str, classes: int) -> Records:
    """The records with which it learns: `labels` gives each the next class."""
    return replace(records, labels=(records.labels + 1) % classes) if lie == "labels" else records


def dishonest_learner(learner: Learner[Any], lie: str) -> Learner[Any]:
    """The state machine with which it lies.

    Raises:
        UsageError: this one cannot tell such a lie.
    """
    if lie == "silent":
        quiet = copy(learner)
        quiet.__class__ = type("Silent", (_Silence, type(learner)), {})
        return quiet
    if lie != "close":
        return learner
    if isinstance(learner, Pairwise):
        return LyingPairwise(learner)
    if not isinstance(learner, Mixer):
        raise UsageError(
            f"--fault dishonest=…@{lie}: is about contributions and pairs; add --set learner.mixing=contributions"
        )
    return LyingMixer(learner, _close)


def _close(others: NDArray[np.float64]) -> NDArray[np.float64]:
    mean = others.mean(axis=0)
    length = float(np.linalg.norm(mean))
    off: NDArray[np.float64] = mean - np.linalg.norm(others - mean, axis=1).mean() * mean / max(length, 1e-12)
    return off
