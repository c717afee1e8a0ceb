"""State of a device that takes part in secure sums. Only the opened sums survive a crash."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.cell.public.knowledge import OpenedRound
from sottovoce.algorithms.cell.public.messages import CellMessage, Given, Go, Known, Shared, SurvivorAck
from sottovoce.secure_sum.proofs import Proof
from sottovoce.secure_sum.statements import Deal, Roster, Statement, body_of
from sottovoce.secure_sum.steps import Revealed


@dataclass(frozen=True, slots=True)
class Leading:
    """State of a leader, which collects messages stage by stage.

    Attributes:
        slot: number of the sum.
        stage: messages that the leader waits for: `offers`, `shares`, `readies`, `vectors`, `stands` or `reveals`.
        since: beat on which the stage began.
        offers: offers by owner.
        roster: devices that take part.
        dealt: each member's shares for the others, by member position.
        members: positions of the members that dealt shares.
        deals: signed commitments to these shares, by member position.
        round: the round's digest, h.
        lead: the leader's signed opening of this round.
        readies: signed statements of readiness, by member position.
        unready: positions of members whose vectors the leader does not wait for.
        go: enough statements of readiness, as received by a deputy.
        vectors: masked, signed vectors, by member position.
        survivors: positions of the members whose vectors arrived.
        stands: signed acknowledgements of the survivors, by member position.
        revealed: revealed shares, by member position.
        deputy: whether this device only listens until the leader falls silent.
        named: the leader's statement of the survivors, as received by a deputy.
    """

    slot: int
    stage: str
    since: int
    offers: Mapping[str, Statement] = field(default_factory=dict)
    roster: Roster | None = None
    dealt: Mapping[int, Shared] = field(default_factory=dict)
    members: tuple[int, ...] = ()
    deals: Mapping[int, Statement] = field(default_factory=dict)
    round: bytes = b""
    lead: Statement | None = None
    readies: Mapping[int, Statement] = field(default_factory=dict)
    unready: frozenset[int] = frozenset()
    go: Go | None = None
    vectors: Mapping[int, Given] = field(default_factory=dict)
    survivors: tuple[int, ...] = ()
    stands: Mapping[int, Statement] = field(default_factory=dict)
    revealed: Mapping[int, Revealed] = field(default_factory=dict)
    deputy: bool = False
    named: Statement | None = None

    @property
    def gone(self) -> tuple[int, ...]:
        """Positions of the members that dropped out."""
        return tuple(place for place in self.members if place not in self.survivors)

    @property
    def roots(self) -> tuple[bytes, ...]:
        """Commitments of the members, in member order."""
        return tuple(body_of(self.deals[member], Deal).root for member in self.members)


@dataclass(frozen=True, slots=True)
class Finding:
    """A lie told by a device.

    Attributes:
        why: description of the lie.
        how: how this device learnt about the lie.
        until: beat from which the device may be in a roster again.
        proof: proof that every device can verify; None if there is none.
    """

    why: str
    how: str
    until: int
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class CellState:
    """State of a device that takes part in secure sums.

    Attributes:
        cycle: number of beats of the device's clock.
        slot: number of opened sums, which is also the number of the next sum.
        numerator: int64[P], the value after these sums, in units of 2^-40; None before the first.
        members: number of devices in the last opened sum.
        regulars: ids of these devices, if this device took part.
        exhausted: whether the vault has no budget for further rounds.
        peers: devices to which messages may be sent.
        stage: `idle`; `offered`, `joined`, `ready`, `given`, `stood` or `told`, after the device's last action; `held`
            while a masked vector waits for the next beat.
        since: beat on which the stage began.
        leader: leader of the round.
        deputies: devices that take over, one after the other, if the leader falls silent.
        asked: id of the step that the vault is answering.
        offer: signed offer of this device.
        roster: devices that take part; None before there is a roster.
        lead: the leader's signed opening of the round; None before there is one.
        round: digest h of the round; empty before there is one.
        go: the leader's message that enough members are ready for the round.
        named: a leader's signed statement of the survivors.
        given: the masked vector, which is sent on the beat after it was computed.
        stood: this device's acknowledgement of the survivors.
        dishonest: lies that this device has recorded, by device.
        doubts: lies that others report, by accused device and then by reporting device.
        silent: devices that led a round without a result, and are skipped.
        turn: index of the peer to ask next for a sum.
        opening: the current sum as opened by other devices, while its masked vectors are fetched.
        opened: the last sum that this device has verified, for devices that ask for it.
        votes: sums that each device claims to know, while this device lags behind.
        sought: beat on which all peers were last asked for later sums.
        leading: rounds that this device leads or may take over, by sum.
        failed: number of rounds that failed on this device.
        queued: waiting messages, by peer; a peer has an entry while a message is being sent to it.
        simulated: whether part of the state comes from a seeded noise stream.
    """

    cycle: int = 0
    slot: int = 0
    numerator: NDArray[np.int64] | None = None
    members: int = 0
    regulars: frozenset[str] = frozenset()
    exhausted: bool = False
    peers: tuple[str, ...] = ()
    stage: str = "idle"
    since: int = 0
    leader: str = ""
    deputies: tuple[str, ...] = ()
    asked: bytes | None = None
    offer: Statement | None = None
    roster: Roster | None = None
    lead: Statement | None = None
    round: bytes = b""
    go: Go | None = None
    named: Statement | None = None
    given: Given | None = None
    stood: SurvivorAck | None = None
    dishonest: Mapping[str, Finding] = field(default_factory=dict)
    doubts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    turn: int = 0
    opening: OpenedRound | None = None
    opened: OpenedRound | None = None
    votes: Mapping[str, Known] = field(default_factory=dict)
    sought: int = -(2**30)
    leading: Mapping[int, Leading] = field(default_factory=dict)
    failed: int = 0
    queued: Mapping[str, tuple[CellMessage, ...]] = field(default_factory=dict)
    simulated: bool = False

    @property
    def pending(self) -> frozenset[str]:
        """Peers to which a message is in transit."""
        return frozenset(self.queued)

    @property
    def struck(self) -> frozenset[str]:
        """Devices that are currently excluded from rosters because they have lied."""
        return frozenset(node for node, found in self.dishonest.items() if found.until > self.cycle)

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state as a JSON-serialisable dict; see State.traced."""
        numerator = None if self.numerator is None else self.numerator.tolist()
        where = {"cycle": self.cycle, "stage": self.stage, "leader": self.leader, "failed": self.failed}
        return {**where, "slot": self.slot, "numerator": numerator, "members": self.members}
