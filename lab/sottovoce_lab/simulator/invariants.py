"""Laws that are checked after every event in a simulation, so that a bug stops the run at once.

Some laws hold for every learner. Others apply to one learner's states and are listed in LAWS by state type. All laws
rely on stores, ledgers and messages rather than on the code under test.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.push_sum.public.machine import PushSumState
from sottovoce.errors import InternalError
from sottovoce.learning.learners import RestatingLearner
from sottovoce.privacy.api import Answer, CellAnswer, Refused, Status
from sottovoce.privacy.secure_sum import steps
from sottovoce_papers.hegedus_2017.golf.public.moments_machine import MomentsState

from sottovoce_lab.simulator.contributions import ContributionOrderLaw
from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.law import Law, Occurrence
from sottovoce_lab.simulator.mass import PushSumMassLaw
from sottovoce_lab.simulator.pairs import PairwiseSumLaw
from sottovoce_lab.simulator.revocations import RevocationLaw
from sottovoce_lab.simulator.sums import SecureSumLaw

LAWS: dict[type, Callable[[Sequence[Device]], Law]] = {
    CellState: SecureSumLaw,
    ContributionsState: ContributionOrderLaw,
    MomentsState: PushSumMassLaw,
    PairwiseState: PairwiseSumLaw,
    PushSumState: PushSumMassLaw,
}
"""Learner-specific laws, by the type of the learner's state."""


class SingleApplicationLaw:
    """The law that no message is applied twice and duplicates change nothing. Implements Law.

    A device whose learner resends everything it knows (RestatingLearner) loses its record of applied messages in a
    crash, and may then apply them again.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], int] = {}
        self._states: dict[str, Any] = {}

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any; see Law.find_violation."""
        node, facts = occurrence.device.id, occurrence.facts
        previous, self._states[node] = self._states.get(node), occurrence.state
        if occurrence.event == "kill" and isinstance(occurrence.device.learner, RestatingLearner):
            self._newest = {link: newest for link, newest in self._newest.items() if link[1] != node}
        if occurrence.event != "receive":
            return None
        if facts["duplicate"]:
            return None if occurrence.state is previous else "a duplicate changed the state of its recipient"
        link = facts["sender"], node
        if facts["sequence"] <= self._newest.get(link, 0):
            return "a message was applied twice, or was applied after a newer message"
        self._newest[link] = facts["sequence"]
        return None


class ReleaseChargeLaw:
    """The law that every release was charged within the budget and stored before it was returned. Implements Law.

    A repeated question must also get an identical answer.
    """

    def __init__(self) -> None:
        self._handed_out: dict[str, dict[bytes, bytes]] = defaultdict(dict)

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any. Between checks, the ledger grows by at most one charge and one release."""
        if occurrence.event not in ("answer", "start", "kill"):
            return None
        handed_out, answer = self._handed_out[occurrence.device.id], occurrence.facts.get("answer")
        if (released_bytes := _released_bytes(answer)) is not None:
            digest = blake2b(released_bytes, digest_size=16).digest()
            if handed_out.setdefault(occurrence.facts["answer"].query_id, digest) != digest:
                return "a question was answered twice, with different answers"
        vault = occurrence.device.vault
        spending, statement = vault.spending(), vault.statement
        if not len(handed_out) <= spending.releases <= spending.charges:
            return "a release was returned that is not in the ledger, or that was never charged"
        if statement.status is Status.PROVED and statement.epsilon is not None:
            return None if spending.current.epsilon <= statement.epsilon else "more was spent than the budget allows"
        return None


def _released_bytes(answer: Answer | CellAnswer | None) -> bytes | None:
    """Return the bytes of the answer's value if it was computed from records, otherwise None."""
    if answer is None or isinstance(answer, Refused):
        return None
    if not isinstance(answer, CellAnswer):
        return answer.value.tobytes()
    step = steps.decode_answer(answer.payload)
    return step.vector if isinstance(step, steps.Vector) else None


class Invariants:
    """Checks all laws that apply to a fleet. Implements EventObserver, but receives each complete `answer`.

    Args:
        devices: the devices in the fleet, before the first event.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = {device.id: device for device in devices}
        self._events = 0
        self._laws: dict[str, tuple[Law, ...]] = {}
        by_state: dict[type, list[Device]] = defaultdict(list)
        for device in devices:
            by_state[type(device.store.load().state)].append(device)
        for state, same_state in by_state.items():
            specific_laws = (LAWS[state](same_state),) if state in LAWS else ()
            laws = (SingleApplicationLaw(), ReleaseChargeLaw(), RevocationLaw(), *specific_laws)
            self._laws.update((device.id, laws) for device in same_state)

    def observe(self, event: str, at: float, device: str, state: Any, **facts: Any) -> None:
        """Check the laws after an event; see EventObserver.observe.

        Raises:
            InternalError: if a law is violated; the message identifies the event.
        """
        self._events += 1
        if event == "send":
            return  # the event that produced this message was already checked
        occurrence = Occurrence(event, self._devices[device], state, facts)
        for law in self._laws[device]:
            if (violation := law.find_violation(occurrence)) is not None:
                raise InternalError(
                    f"{violation}: seen after event {self._events}, `{event}` at {device}, {at:.6f} s into the run; "
                    "the same seed reproduces this violation; report it as a bug"
                )
