"""Groups of the parts from which an agent is assembled; each group is complete before the agent receives it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.net.transports import Peer, Transport
from sottovoce.node.core import Core
from sottovoce.node.day_watch import DayWatch
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.quota import Quota
from sottovoce.node.renewal import Renewal
from sottovoce.node.roll_call import RollCall
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.node.tasks import Tasks
from sottovoce.ops import Counters

if TYPE_CHECKING:  # imported late: only learners that use published records have a book
    from sottovoce.node.record_book import RecordStore


@dataclass(frozen=True, slots=True)
class Learning:
    """The learner's state machine, and the files that hold its state.

    Attributes:
        core: the state machine with its outbox and inbox.
        store: the durable state.
        book: the published records that the device holds; None if its learner does not use published records.
    """

    core: Core
    store: SqliteStore
    book: "RecordStore | None"


@dataclass(frozen=True, slots=True)
class Network:
    """Everything that an agent needs in order to exchange messages.

    Attributes:
        transport: sends and receives messages.
        peers: the configured peers; empty if peers are sampled.
        seal: encodes and signs a payload for a recipient; the arguments are recipient, payload type and payload.
        counters: traffic counters, shared with the transport.
        quota: limits on the messages that each peer may send.
    """

    transport: Transport
    peers: Sequence[Peer]
    seal: Callable[[str, str, bytes], bytes]
    counters: Counters
    quota: Quota


@dataclass(frozen=True, slots=True)
class Gossip:
    """The exchanges by which devices keep track of one another.

    Attributes:
        heads: ledger heads and their witnesses.
        revocations: revoked devices and changes of the fleet's keys.
        tasks: the device's task, and the tasks of its peers.
        roll_call: the condition of every device, on request.
        sampling: discovery and sampling of peers; None if the peers are configured.
    """

    heads: LedgerHeadGossip
    revocations: RevocationGossip
    tasks: Tasks
    roll_call: RollCall
    sampling: PeerSampler | None


@dataclass(frozen=True, slots=True)
class Watches:
    """Background work that depends on the clock.

    Attributes:
        renewal: renews the device's certificate.
        days: reports ended days to a learner that follows a feed; None for other learners.
    """

    renewal: Renewal
    days: DayWatch | None
