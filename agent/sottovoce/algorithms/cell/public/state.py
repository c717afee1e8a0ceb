"""State of a device that takes part in secure sums. Only the results of opened sums survive a crash."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.cell.public.knowledge import OpenedRound
from sottovoce.algorithms.cell.public.messages import CellMessage, Given, Go, Known, Shared, SurvivorAck
from sottovoce.algorithms.cell.public.proofs import Proof
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods, neighbourhoods
from sottovoce.privacy.secure_sum.statements import Deal, Roster, Statement, decode_body
from sottovoce.privacy.secure_sum.steps import Revealed


@dataclass(frozen=True, slots=True)
class LeaderState:
    """The state of a leader, which collects messages stage by stage.

    Attributes:
        slot: the number of the sum.
        stage: the messages the leader is waiting for: `shares`, `readies`, `vectors`, `stands` or `reveals`.
        since: the beat on which the stage began.
        roster: the participating devices.
        dealt: each member's shares for the others, keyed by member position.
        members: the positions of the members that dealt shares.
        deals: the signed commitments to these shares, keyed by member position.
        round: the round digest, h.
        lead: the statement with which the leader opened this round.
        readies: signed readiness statements, keyed by member position.
        unready: the positions of members whose vectors the leader does not wait for.
        go: the leader's message with enough readiness statements, as received by a deputy.
        vectors: signed masked vectors, keyed by member position.
        survivors: the positions of the members whose vectors arrived.
        stands: signed acknowledgements of the survivors, keyed by member position.
        revealed: revealed shares, keyed by member position.
        deputy: whether this device only listens, until the leader falls silent.
        named: the leader's statement of the survivors, as received by a deputy.
    """

    slot: int
    stage: str
    since: int
    roster: Roster
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

    def graph(self, cell: Cell) -> Neighbourhoods:
        """Return the neighbourhoods of the roster."""
        return neighbourhoods(cell, self.roster.digest, len(self.roster))

    @property
    def gone(self) -> tuple[int, ...]:
        """The positions of the members that dropped out."""
        return tuple(position for position in self.members if position not in self.survivors)

    @property
    def roots(self) -> tuple[bytes, ...]:
        """The members' commitments, in member order."""
        return tuple(decode_body(self.deals[member], Deal).root for member in self.members)


@dataclass(frozen=True, slots=True)
class HeldOffer:
    """An offer that a leader, or a device that may become the leader, keeps.

    Attributes:
        slot: the number of the sum.
        attempt: the attempt for which it was made.
        beat: the beat on which it last arrived.
        statement: the signed offer.
    """

    slot: int
    attempt: int
    beat: int
    statement: Statement


@dataclass(frozen=True, slots=True)
class Finding:
    """A recorded lie by a device.

    Attributes:
        description: a description of the lie.
        source: how this device learnt of the lie.
        until: the first beat on which the device may be in a roster again.
        proof: a proof that every device can verify, or None.
    """

    description: str
    source: str
    until: int
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class CellState:
    """The state of a device that takes part in secure sums.

    Attributes:
        cycle: the number of beats so far.
        slot: the number of opened sums, which is also the number of the next sum.
        numerator: int64[P], the value after these sums, in units of 2^-40; None before the first.
        members: the number of devices in the last opened sum.
        regulars: the ids of those devices if this device was one of them, otherwise empty.
        exhausted: whether the vault has no budget left for further rounds.
        peers: the devices to which messages may be sent.
        stage: `idle`; `offered`, `joined`, `ready`, `given`, `stood` or `told`, after this device's last action; or
            `held` while a masked vector waits for the next beat.
        since: the beat on which the stage began.
        leader: the leader of the round.
        deputies: the devices that take over, in this order, if the leader falls silent.
        pending_query: the id of the step that the vault is processing.
        offer: this device's signed offer.
        roster: the participating devices; None before there is a roster.
        lead: the statement with which the leader opened the round; None before it arrives.
        round: the round digest, h; empty before there is one.
        go: the leader's message that enough members are ready for the round.
        named: a leader's signed statement of the survivors.
        given: the masked vector, sent on the beat after it was computed.
        survivor_ack: this device's acknowledgement of the survivors.
        dishonest: recorded lies, keyed by device.
        doubts: reported lies, keyed by accused device and then by accuser; with this device as the accuser, results
            that differ from its own, which may be honest results of another round.
        suspects: leaders of charged rounds that failed, with the number of the sum. That is no proof of dishonesty, so
            they are only left out of later rosters for this sum, if these are large enough without them, and do not
            lead later sums, unless all devices are suspects.
        attempt: the number of the current attempt at the sum, from 0, which determines the leader.
        offered_attempt: the attempt at which this device last sent its offer.
        wish: the highest attempt for which this device wishes.
        wishes: the highest attempt for which each peer wishes.
        offers: other devices' offers, and this one's if it leads, keyed by owner.
        quorum_beat: the beat on which there were first enough offers for a roster; None if there are too few.
        gathered: the number of offers that the leader last said it had; 0 before it answers.
        turn: the index of the peer to ask next for a sum.
        opening: the current sum as opened by other devices, while its masked vectors are being fetched.
        incomplete: devices whose opening of this sum was dropped because its masked vectors could not be fetched.
        opened: the last sum that this device verified, for devices that ask for it.
        votes: the sums that each device claims to know, while this device lags behind.
        last_seek_beat: the beat on which all peers were last asked for later sums.
        leading: the rounds that this device leads or may take over, keyed by sum.
        closed: the last round that this device opened as the leader, in which shares may still arrive.
        failed_rounds: the number of rounds that failed on this device.
        refused_rounds: the digests of rounds whose sum honest members cannot have made.
        outbox: queued messages, keyed by peer; a peer has an entry while a message is in transit to it.
        simulated: whether any of the state comes from a seeded noise stream.
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
    pending_query: bytes | None = None
    offer: Statement | None = None
    roster: Roster | None = None
    lead: Statement | None = None
    round: bytes = b""
    go: Go | None = None
    named: Statement | None = None
    given: Given | None = None
    survivor_ack: SurvivorAck | None = None
    dishonest: Mapping[str, Finding] = field(default_factory=dict)
    doubts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    attempt: int = 0
    offered_attempt: int = 0
    wish: int = 0
    wishes: Mapping[str, int] = field(default_factory=dict)
    offers: Mapping[str, HeldOffer] = field(default_factory=dict)
    quorum_beat: int | None = None
    gathered: int = 0
    suspects: Mapping[str, int] = field(default_factory=dict)
    turn: int = 0
    opening: OpenedRound | None = None
    incomplete: frozenset[str] = frozenset()
    opened: OpenedRound | None = None
    votes: Mapping[str, Known] = field(default_factory=dict)
    last_seek_beat: int = -(2**30)
    leading: Mapping[int, LeaderState] = field(default_factory=dict)
    closed: LeaderState | None = None
    failed_rounds: int = 0
    refused_rounds: frozenset[bytes] = frozenset()
    outbox: Mapping[str, tuple[CellMessage, ...]] = field(default_factory=dict)
    simulated: bool = False

    @property
    def pending(self) -> frozenset[str]:
        """The peers to which a message is in transit."""
        return frozenset(self.outbox)

    @property
    def excluded(self) -> frozenset[str]:
        """The devices currently excluded from rosters because they lied."""
        return frozenset(node for node, finding in self.dishonest.items() if finding.until > self.cycle)

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state as a JSON-serialisable dict; see State.traced."""
        numerator = None if self.numerator is None else self.numerator.tolist()
        position = {"cycle": self.cycle, "stage": self.stage, "leader": self.leader, "attempt": self.attempt}
        return {
            **position,
            "failed": self.failed_rounds,
            "slot": self.slot,
            "numerator": numerator,
            "members": self.members,
        }
