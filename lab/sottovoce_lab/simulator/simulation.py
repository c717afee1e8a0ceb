"""A single-threaded simulation of agents on a virtual clock, deterministic for a given seed even with faults.

Each device runs the real agent's core, learner and vault. Only the clock and the network are simulated: messages are
passed as objects, and a crash discards everything that is not in the store. Faults determine which messages are lost,
duplicated, delayed, held back or blocked by a partition. The fleet's laws are checked after every event.
"""

import heapq
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import InternalError, MessageRefused
from sottovoce.learning.learners import Ask, Message, PublishModel, Reply, SetTimer, TakePart
from sottovoce.node.core import Action, Core, Transmit
from sottovoce.node.links import Outgoing
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, Refused

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.disk import DiskFull
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.simulator.invariants import Invariants
from sottovoce_lab.simulator.trace import EventObserver

_INCARNATION = 1
_RETRY_PERIODS = 0.5
_NOTIFICATION_PERIODS = 3.0  # number of periods within which all devices are notified of a revocation
_PAUSE_PERIODS = (0.5, 1.5)  # how many periods a device with a full disk waits before it restarts
# How much longer a held-back message takes, in retry intervals: its own retry overtakes it, and later messages may too.
_HELD_RETRIES = (1.0, 4.0)


@dataclass(slots=True)
class Traffic:
    """Counts of messages (including retries), of retries, and of values transferred in messages and replies."""

    messages: int = 0
    retries: int = 0
    numbers: int = 0


class Simulation:
    """A fleet on a virtual clock.

    Args:
        devices: the devices in the fleet.
        faults: the faults that affect messages and vaults.
        period: the number of seconds between cycles; a retry waits for half a period plus the longest round trip.
        seed: seed for all randomness in the simulation itself.
        event_observer: receives every event; None for no observer.

    Every method that runs events raises InternalError if an event violates an invariant.

    Attributes:
        now: the virtual time since the start, in seconds.
        traffic: counts of messages, retries and values sent.
        refused_messages: the number of messages that their recipients refused.
        cut_off: the node ids of the devices that exchange no messages with devices outside this set.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        *,
        faults: Faults,
        period: float,
        seed: int,
        event_observer: EventObserver | None = None,
    ) -> None:
        self.devices = {device.id: device for device in devices}
        self.now = 0.0
        self.traffic = Traffic()
        self.refused_messages = 0
        self.cut_off: frozenset[str] = frozenset()
        self._faults = faults
        self._retry = period * _RETRY_PERIODS + 2 * (faults.delay + faults.delay_spread)
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = 0
        self._period = period
        self._event_observer = event_observer
        self._invariants = Invariants(devices)

    def start(self) -> None:
        """Schedule the start of every device at a random time in the first period."""
        for device in self.devices.values():
            self._schedule(self._random.uniform(0, self._period), self._starter(device, device.incarnation))

    def run_until(self, time: float) -> None:
        """Run all events that are due at or before `time`."""
        while self._events and self._events[0][0] <= time:
            self.step()
        self.now = max(self.now, time)

    def step(self) -> bool:
        """Run the next event, or return False if there is none."""
        if not self._events:
            return False
        self.now, _, callback = heapq.heappop(self._events)
        self._run_event(callback)
        return True

    def kill(self, node: str) -> None:
        """Kill a device (kill -9), which destroys its core but not its store and ledger."""
        device = self.devices[node]
        device.core, device.incarnation = None, device.incarnation + 1
        device.timers.clear()
        self._report_event("kill", device)

    def restart(self, node: str) -> None:
        """Start a killed device again from its stored state."""
        self._run_event(lambda: self._start(self.devices[node]))

    def revoke(self, nodes: Collection[str]) -> None:
        """Revoke these devices, and notify each honest device of this at a random time, even while it is down.

        An honest device that is notified of its own revocation stops permanently. Dishonest devices are not notified.
        """
        for device in self.devices.values():
            if device.is_honest:
                self._schedule(
                    self._random.uniform(0, _NOTIFICATION_PERIODS) * self._period,
                    self._revocation_notice(device, nodes),
                )

    def _revocation_notice(self, device: Device, nodes: Collection[str]) -> Callable[[], None]:
        def notify() -> None:
            device.revoked_ids.update(nodes)
            if device.is_revoked:
                self.kill(device.id)
            elif device.core is not None:
                actions = device.core.replace_peers(device.permitted_peers, self.now)
                self._report_event("meet", device)
                self._perform(device, actions)

        return notify

    def _run_event(self, callback: Callable[[], None]) -> None:
        """Run an event. A device that cannot write during the event is killed, and restarts after a pause."""
        try:
            callback()
        except DiskFull as error:
            device = self.devices[error.node]
            self.kill(device.id)
            self._schedule(
                self._random.uniform(*_PAUSE_PERIODS) * self._period, self._starter(device, device.incarnation)
            )

    def end_window(self, node: str, window: int) -> None:
        """Notify a device that a window of its records has ended, unless the device is down."""
        device = self.devices[node]
        if device.core is not None:
            actions = device.core.end_windows(window, self.now)
            self._report_event("over", device)
            self._perform(device, actions)

    def _starter(self, device: Device, incarnation: int) -> Callable[[], None]:
        return lambda: self._start(device) if device.incarnation == incarnation else None

    def _start(self, device: Device) -> None:
        if device.is_revoked:
            return
        device.core = Core(learner=device.learner, store=device.store, seal=_leave_unsealed)
        actions = device.core.start(device.permitted_peers, self.now)
        self._report_event("start", device)
        self._perform(device, actions)

    def _report_event(self, event: str, device: Device, **facts: Any) -> None:
        state = device.core.state if device.core else None
        self._invariants.observe(event, self.now, device.id, state, **facts)
        if self._event_observer is not None:
            if "answer" in facts:
                facts = _answer_facts(facts["answer"])
            self._event_observer.observe(event, self.now, device.id, state, **facts)

    def _schedule(self, delay: float, callback: Callable[[], None]) -> None:
        self._counter += 1
        heapq.heappush(self._events, (self.now + delay, self._counter, callback))

    def _core_if_running(self, device: Device, incarnation: int) -> Core | None:
        return device.core if device.incarnation == incarnation else None

    def _perform(self, device: Device, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Transmit(outgoing):
                    self._transmit(device, device.incarnation, outgoing, retry=False)
                case SetTimer(name, at):
                    self._set_timer(device, name, at)
                case Ask() | TakePart():
                    self._ask(device, action)
                case PublishModel(parameters, cycle):
                    device.model, device.cycle = parameters, cycle

    def _set_timer(self, device: Device, name: str, at: float) -> None:
        device.timers[name] = at
        incarnation = device.incarnation

        def fire_timer() -> None:
            core = self._core_if_running(device, incarnation)
            if core is not None and device.timers.get(name) == at:
                del device.timers[name]
                actions = core.fire(name, self.now)
                self._report_event(name, device)
                self._perform(device, actions)

        self._schedule(max(0.0, at - self.now), fire_timer)

    def _ask(self, device: Device, ask: Ask | TakePart) -> None:
        query, vault, incarnation = ask.query, device.vault, device.incarnation
        answer = vault.step(query) if isinstance(query, CellQuery) else vault.answer(query)

        def deliver_answer() -> None:
            core = self._core_if_running(device, incarnation)
            if core is not None:
                actions = core.apply_answer(query, answer, self.now)
                self._report_event("answer", device, answer=answer)
                self._perform(device, actions)

        delay = self._faults.vault and self._faults.vault + self._random.uniform(-1, 1) * self._faults.vault_spread
        self._schedule(delay, deliver_answer)

    def _transmit(self, device: Device, incarnation: int, outgoing: Outgoing, *, retry: bool) -> None:
        core = self._core_if_running(device, incarnation)
        is_refused = outgoing.recipient in device.revoked_ids
        if core is None or is_refused or not core.is_unconfirmed(outgoing.recipient, outgoing.sequence):
            return
        self.traffic.messages += 1
        self.traffic.retries += retry
        self.traffic.numbers += _message(outgoing).value_count
        self._report_event(
            "send",
            device,
            recipient=outgoing.recipient,
            sequence=outgoing.sequence,
            message=outgoing.parcel,
            retry=retry,
        )
        copies = 1 + (self._random.random() < self._faults.duplicate)
        for _ in range(copies):
            if self._random.random() >= self._faults.loss and not self._are_separated(device.id, outgoing.recipient):
                self._schedule(self._delay() + self._hold_time(), lambda: self._arrive(device, incarnation, outgoing))
        self._schedule(self._retry, lambda: self._transmit(device, incarnation, outgoing, retry=True))

    def _arrive(self, sender: Device, incarnation: int, outgoing: Outgoing) -> None:
        recipient = self.devices[outgoing.recipient]
        if recipient.core is None or sender.id in recipient.revoked_ids or self._are_separated(sender.id, recipient.id):
            return
        try:
            duplicate, actions = recipient.core.receive(
                sender.id, _INCARNATION, outgoing.sequence, _message(outgoing), self.now
            )
        except MessageRefused:
            self.refused_messages += 1
            return
        reply = next((action.message for action in actions if isinstance(action, Reply)), None)
        receive_facts = {
            "sender": sender.id,
            "sequence": outgoing.sequence,
            "duplicate": duplicate,
            **_reply_facts(reply),
        }
        self._report_event("receive", recipient, **receive_facts)
        self._perform(recipient, actions)
        self.traffic.numbers += 0 if reply is None else reply.value_count
        if self._random.random() >= self._faults.loss:
            self._schedule(self._delay(), lambda: self._confirm(sender, incarnation, outgoing, reply))

    def _confirm(self, sender: Device, incarnation: int, outgoing: Outgoing, reply: Message | None) -> None:
        core = self._core_if_running(sender, incarnation)
        is_blocked = outgoing.recipient in sender.revoked_ids or self._are_separated(sender.id, outgoing.recipient)
        if core is not None and not is_blocked:
            try:
                actions = core.confirm(outgoing.recipient, outgoing.sequence, self.now, reply)
            except MessageRefused:
                self.refused_messages += 1
                actions = core.confirm(outgoing.recipient, outgoing.sequence, self.now)
            confirm_facts = {"recipient": outgoing.recipient, "sequence": outgoing.sequence, **_reply_facts(reply)}
            self._report_event("confirm", sender, **confirm_facts)
            self._perform(sender, actions)

    def _are_separated(self, first: str, second: str) -> bool:
        return (first in self.cut_off) != (second in self.cut_off)

    def _delay(self) -> float:
        return self._faults.delay + self._random.uniform(-1, 1) * self._faults.delay_spread

    def _hold_time(self) -> float:
        is_held = self._faults.reorder and self._random.random() < self._faults.reorder
        return self._retry * self._random.uniform(*_HELD_RETRIES) if is_held else 0.0


def _answer_facts(answer: Answer | CellAnswer) -> dict[str, Any]:
    """Return facts about a vault's answer, for the observer."""
    if isinstance(answer, CellAnswer):
        return {"payload": answer.payload.hex()}
    if isinstance(answer, Refused):
        return {"refused": answer.reason}
    return {"value": answer.value.tolist(), "grid_step": answer.step}


def _reply_facts(reply: Message | None) -> dict[str, Message]:
    return {} if reply is None else {"reply": reply}


def _leave_unsealed(recipient: str, sequence: int, message: Message) -> Message:
    return message


def _message(outgoing: Outgoing) -> Message:
    if isinstance(outgoing.parcel, bytes):
        raise InternalError("a simulated link received serialised bytes instead of a message object")
    return outgoing.parcel
