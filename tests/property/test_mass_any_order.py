"""Cores without a clock: timers, deliveries, confirmations, refusals, answers and power cuts in any order."""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sottovoce.learning.learners import Ask, Message, SetTimer
from sottovoce.node.core import Action, Core, Transmit
from sottovoce.node.links import Outgoing
from sottovoce.privacy.api import Query
from sottovoce_lab.simulator import Device

from tests.deterministic.fleet import PowerCut, fleet

pytestmark = pytest.mark.slow

NODES = ("device-0", "device-1", "device-2")
nodes = st.sampled_from(NODES)


class AnyOrder(RuleBasedStateMachine):
    """Network that may delay any message or answer indefinitely, and deliver it twice."""

    @initialize(seed=st.integers(0, 3), fanout=st.integers(1, 2), topology=st.sampled_from(["ring", "star"]))
    def begin(self, seed: int, fanout: int, topology: str) -> None:
        self.fleet = fleet(3, topology, seed=seed, steps=4, fanout=fanout)
        self.now = 0.0
        self.timers: set[str] = set()
        self.asked: list[tuple[str, int, Query]] = []
        self.messages: list[tuple[str, Outgoing]] = []
        self.confirmations: list[tuple[str, int, Outgoing, bool]] = []
        self.tasks = dict.fromkeys(NODES, 0)
        self.sealed: dict[int, tuple[int, Outgoing]] = {}  # by parcel, its sender's task
        for device in self.fleet.devices:
            self._start(device)

    @rule(node=nodes)
    def tick(self, node: str) -> None:
        core = self._device(node).core
        if core and node in self.timers:
            self.timers.remove(node)
            self._act(node, lambda: core.fire("cycle", self.now))

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), again=st.booleans())
    def deliver(self, data: st.DataObject, again: bool) -> None:
        i = data.draw(st.integers(0, len(self.messages) - 1))
        sender, outgoing = self.messages[i] if again else self.messages.pop(i)
        recipient = self._device(outgoing.recipient)
        if recipient.core and not isinstance(outgoing.parcel, bytes):
            core, message, place = recipient.core, outgoing.parcel, (sender, 1, outgoing.sequence)
            task, _ = self.sealed[id(message)]

            def act() -> list[Action]:
                if not core.was_applied(*place) and task != self.tasks[recipient.id]:
                    core.refuse(*place, "task")
                return [] if core.refusal_reason(*place) else core.receive(*place, message, self.now)[1]

            if self._act(recipient.id, act):
                refused = bool(core.refusal_reason(*place))
                self.confirmations.append((sender, self._device(sender).incarnation, outgoing, refused))

    @rule(node=nodes)
    def change_task(self, node: str) -> None:
        """Change a device's task: it then permanently refuses messages under the other task, even those in transit."""
        self.tasks[node] = 1 - self.tasks[node]

    @precondition(lambda self: self.confirmations)
    @rule(data=st.data(), lost=st.booleans())
    def confirm(self, data: st.DataObject, lost: bool) -> None:
        sender, life, outgoing, refused = self.confirmations.pop(data.draw(st.integers(0, len(self.confirmations) - 1)))
        device = self._device(sender)
        if device.core and device.incarnation == life and not lost:
            then = device.core.take_back if refused else device.core.confirm
            self._act(sender, lambda: then(outgoing.recipient, outgoing.sequence, self.now))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        node, life, query = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        device = self._device(node)
        answer = device.vault.answer(query)
        if device.core and device.incarnation == life:
            core = device.core
            self._act(node, lambda: core.apply_query_answer(answer, self.now))

    @rule(node=nodes)
    def retry(self, node: str) -> None:
        core = self._device(node).core
        self.messages += [(node, outgoing) for outgoing in core.outbox] if core else []

    @rule(node=nodes)
    def kill(self, node: str) -> None:
        self._down(node)

    @rule(node=nodes)
    def restart(self, node: str) -> None:
        if self._device(node).core is None:
            self._start(self._device(node))

    @rule(node=nodes, when=st.sampled_from(["before", "after"]))
    def doom(self, node: str, when: str) -> None:
        """Cut the power at this device's next commit."""
        self.fleet.stores[node].doom = when

    @invariant()
    def mass_is_conserved(self) -> None:
        self.fleet.assert_conserved()

    @invariant()
    def each_link_has_at_most_one_share(self) -> None:
        for device in self.fleet.devices:
            recipients = [outgoing.recipient for outgoing in device.core.outbox] if device.core else []
            assert len(recipients) == len(set(recipients))
            assert not device.core or device.core.state.pending == set(recipients)

    def teardown(self) -> None:
        if hasattr(self, "fleet"):
            self.fleet.assert_one_release_per_slot()

    def _device(self, node: str) -> Device:
        return self.fleet.by_name[node]

    def _start(self, device: Device) -> None:
        device.core = Core(learner=device.learner, store=device.store, seal=_open)
        self._perform(device.id, device.core.start(device.peers, self.now))

    def _down(self, node: str) -> None:
        device = self._device(node)
        device.core, device.incarnation = None, device.incarnation + 1
        self.timers.discard(node)

    def _act(self, node: str, act: Callable[[], list[Action]]) -> bool:
        self.now += 0.3
        try:
            actions = act()
        except PowerCut:
            self._down(node)
            return False
        self._perform(node, actions)
        return True

    def _perform(self, node: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Transmit(outgoing):
                    self.sealed.setdefault(id(outgoing.parcel), (self.tasks[node], outgoing))
                    self.messages.append((node, outgoing))
                case SetTimer():
                    self.timers.add(node)
                case Ask(query):
                    self.asked.append((node, self._device(node).incarnation, query))
                case _:
                    pass


def _open(recipient: str, sequence: int, message: Message) -> Message:
    return message


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=200, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
