"""Assemble an agent from a configuration and a state directory, and run it.

Assembly fails with one message if anything is missing. The metrics packages are imported only if they are configured.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce_bootstrap import AddressBook, Author, BootCounter, Contact, Membership, Settings, Verifier
from sottovoce_bootstrap.sources.invitation import invitation_contacts

from sottovoce.concurrency import DEFAULT_THREADS, ThreadPool
from sottovoce.config import AgentConfig
from sottovoce.data import Table
from sottovoce.errors import ExitCode, InternalError
from sottovoce.fleet import Identity, Trust, load as load_identity, peer_dns_name
from sottovoce.fleet.clock import NAME as CLOCK, ClockFloor
from sottovoce.fleet.identity import IDENTITY
from sottovoce.fleet.signed_task import TASK_FILE as TASK
from sottovoce.learning.learners import Message
from sottovoce.net.quota import Quota
from sottovoce.net.transports import Peer, Transport
from sottovoce.net.wire import decode, encode, read_payload, read_task_digest, seal
from sottovoce.node.core import AdaptiveInterval, Core
from sottovoce.node.gossip.fleet_tasks import FleetTasks
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.ledger_head_store import NAME as HEADS, LedgerHeadStore
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.gossip.result_book import ResultBook
from sottovoce.node.gossip.result_gossip import ResultGossip
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.gossip.revocation_store import NAME as REVOKED
from sottovoce.node.gossip.witnesses import RollbackDetector
from sottovoce.node.host import Host
from sottovoce.node.links import Outgoing, Parcel
from sottovoce.node.network import Discovery, make_sources, make_transport
from sottovoce.node.provenance import FleetProvenance
from sottovoce.node.reception import Gossip
from sottovoce.node.renewal import Renewal
from sottovoce.node.runtime import Agent
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.node.start_checks import check_mode, check_peers, check_readers, check_socket, check_state
from sottovoce.node.tasks import RollCall, Tasks
from sottovoce.node.vault_session import VaultSession, open_local_vault, open_remote_vault
from sottovoce.node.waits import DayWatch, Waits
from sottovoce.ops import Counters
from sottovoce.plugins import plugin_errors
from sottovoce.privacy.vault import VaultInterface
from sottovoce.task import Task

if TYPE_CHECKING:
    from sottovoce.node.record_book import RecordStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Variant:
    """Overrides that a testbed may apply to an agent; the defaults are those of an agent on a device.

    Attributes:
        transport: wraps the transport, for example to corrupt messages.
        clock: clock that determines when a day ends, in seconds of Unix time.
    """

    transport: Callable[[Transport], Transport] = lambda transport: transport
    clock: Callable[[], float] = time.time


@plugin_errors()
def assemble(config: AgentConfig, variant: Variant | None = None, table: Table | None = None) -> Agent:
    """Assemble an agent; a table takes the place of data.source.

    Raises:
        SottovoceError: if anything is missing, corrupt, expired, unproved or impossible; nothing has been started.
    """
    state = config.agent.state
    check_socket(state)
    check_state(state)
    check_readers(config)
    identity = _load_checked_identity(config)
    waits, variant = Waits(), variant or Variant()
    is_separate, trust = config.vault.socket is not None, Trust(identity)
    if is_separate:
        session = open_remote_vault(config, identity, waits)
    else:
        session = open_local_vault(config, trust, variant.clock, table)
    try:
        return _assemble_with_vault(session, trust, waits, variant)
    except BaseException:
        session.vault.close()
        raise


def _make_day_watch(config: AgentConfig, clock: Callable[[], float], waits: Waits) -> DayWatch | None:
    """Return the watch that reports finished days to the learner, or None if the learner needs no such reports."""
    if config.followed_days is None or not config.learner.algorithm.regression:
        return None
    lateness = config.feed.lateness  # a day is charged when no more of its readings may arrive
    return DayWatch(config.followed_days, lambda: clock() - lateness, waits)


def _load_checked_identity(config: AgentConfig) -> Identity:
    """Return the device's identity after checking the clock, the joining mode and the configured peers."""
    state = config.agent.state
    ClockFloor(state / CLOCK).check()
    identity = load_identity(state / IDENTITY, peers=[peer.id for peer in config.transport.peers])
    check_mode(config, identity)
    check_peers(config, identity)
    return identity


def _open_record_book(state: Path, epoch: int) -> "RecordStore":
    from sottovoce.node.record_book import NAME, RecordStore  # only learners that use published records need it

    return RecordStore(state / NAME, epoch)


def _assemble_with_vault(session: VaultSession, trust: Trust, waits: Waits, variant: Variant) -> Agent:
    config, family, vault, task, epoch = session.config, session.family, session.vault, session.task, session.epoch
    identity = trust.identity
    book = _open_record_book(config.agent.state, epoch) if family.keeps_records else None
    records = () if book is None else book.load()
    provenance = FleetProvenance(identity, task.digest, trust.is_revoked)
    trust.subscribe(lambda: provenance.renew(trust.identity))
    learner, codec = family.learner(identity.node_id, provenance, records)
    store = SqliteStore(config.agent.state, learner, codec, vault.spending().current.releases, epoch)
    counters = Counters()
    interval = AdaptiveInterval(config.learner.longest_pause)
    sealer = _make_sealer(identity, store.incarnation, task, counters)
    core = Core(
        learner=learner,
        store=store,
        seal=sealer,
        open_parcel=_open_parcel,
        upgrade=_make_resealer(sealer),
        interval=interval,
    )
    boots = BootCounter(config.agent.state / "boots")
    incarnation = boots.begin()
    quota = Quota(config.learner.period)
    multi_transport = make_transport(
        config.transport, trust, config.agent.state / IDENTITY, incarnation, waits, quota, counters
    )
    transport = variant.transport(multi_transport)

    def seal_message(recipient: str, kind: str, payload: bytes) -> bytes:
        return _seal_envelope(identity, store.incarnation, task, recipient, 1, kind, payload)

    messenger = Messenger(seal_message, transport, config.transport.timeout, counters, waits)
    host, sampler = _make_host(config, trust, messenger, boots, incarnation, multi_transport.transports)
    revocations = RevocationGossip(
        host=host, state=config.agent.state, messenger=messenger, period=config.membership.period
    )
    if sampler is not None:
        sampler.membership.expel(trust.revoked, time.monotonic())  # those that the gossip has read from its file
    fleet_tasks = FleetTasks(
        host=host, state=config.agent.state, messenger=messenger, epoch=epoch, activate_task=session.activate_task
    )
    tasks = Tasks(host, task, messenger, fleet_tasks)
    gossip = Gossip(
        heads=_make_head_gossip(config, host, vault, messenger),
        revocations=revocations,
        tasks=tasks,
        roll_call=RollCall(host, messenger, tasks),
        results=_make_result_gossip(session, host, messenger),
        sampling=sampler,
    )
    agent = Agent(
        config=config,
        host=host,
        core=core,
        store=store,
        book=book,
        vault=vault,
        transport=transport,
        counters=counters,
        quota=quota,
        gossip=gossip,
        renewal=_make_renewal(config, trust, revocations, fleet_tasks, waits),
        day_watch=_make_day_watch(config, variant.clock, waits),
        waits=waits,
    )
    multi_transport.on_peer_reachable = _make_reachability_handler(agent)
    return agent


def _make_reachability_handler(agent: Agent) -> Callable[[str | None], None]:
    """Return the callback that a transport calls when a peer is reachable again; None stands for every peer."""

    def note_reachable(peer: str | None) -> None:
        for node, link in agent.links.items():
            if peer in (None, node) and link.failures:
                link.mark_reachable()
        if agent.peer_sampling is not None:
            agent.peer_sampling.mark_reachable(peer)

    return note_reachable


def _make_result_gossip(session: VaultSession, host: Host, messenger: Messenger) -> ResultGossip | None:
    """Return the gossip about opened sums, or None if the learner's sums are steps on the way to a model."""
    config, task, trust = session.config, session.task, host.trust
    if config.cell is None or not config.learner.algorithm.sums_are_results:
        return None
    book = ResultBook(config.agent.state, task.digest, lambda: trust.identity, trust.is_revoked)
    return ResultGossip(host=host, task=task, statement=session.vault.statement, book=book, messenger=messenger)


def _make_head_gossip(config: AgentConfig, host: Host, vault: VaultInterface, messenger: Messenger) -> LedgerHeadGossip:
    head_store = LedgerHeadStore(config.agent.state / HEADS)
    if head_store.creation_reason is not None and vault.tip().charges > 0:
        _log.warning(
            "heads-forgotten other devices' ledger heads were reset because %s; until those devices resend "
            "them, this device cannot detect a restored copy of their ledgers",
            head_store.creation_reason,
        )
    detector = RollbackDetector(config.ledger.echoes, config.ledger.alone)
    try:
        return LedgerHeadGossip(
            host=host,
            vault=vault,
            head_store=head_store,
            detector=detector,
            messenger=messenger,
            has_contacts=_has_contacts(config),
            period=config.learner.period,
        )
    except BaseException:
        head_store.close()
        raise


def _has_contacts(config: AgentConfig) -> bool:
    """Return whether the configuration or the invitation provides a peer or a discovery source."""
    membership = config.membership
    if config.transport.peers or membership.sampling == "static":
        return bool(config.transport.peers)
    can_discover = membership.mdns or membership.dns is not None or "mqtt" in config.transport.use
    return can_discover or bool(invitation_contacts(config.agent.state))


def _make_renewal(
    config: AgentConfig, trust: Trust, revocations: RevocationGossip, fleet_tasks: FleetTasks, waits: Waits
) -> Renewal:
    state = config.agent.state
    return Renewal(
        trust=trust,
        directory=state / IDENTITY,
        callbacks={state / REVOKED: revocations.reload, state / TASK: fleet_tasks.reload},
        floor=ClockFloor(state / CLOCK),
        enroller=config.identity.enroller,
        pinned_nodes=tuple(peer.id for peer in config.transport.peers),
        pause=config.identity.look_every,
        waits=waits,
    )


def _make_sealer(
    identity: Identity, incarnation: int, task: Task, counters: Counters
) -> Callable[[str, int, Message], bytes]:
    def seal_message(recipient: str, sequence: int, message: Message) -> bytes:
        payload_type, payload = encode(message)
        counters.payload_bytes += len(payload)
        return _seal_envelope(identity, incarnation, task, recipient, sequence, payload_type, payload)

    return seal_message


def _open_parcel(parcel: Parcel) -> Message:
    if not isinstance(parcel, bytes):
        raise InternalError("the outbox holds an entry that is not a sealed envelope: this is a bug; please report it")
    return decode(*read_payload(parcel))


def _make_resealer(seal: Callable[[str, int, Message], bytes]) -> Callable[[Outgoing], Outgoing]:
    """Return a function that reseals shares from version 0.1, keeping their message and sequence number."""

    def reseal(outgoing: Outgoing) -> Outgoing:
        if isinstance(outgoing.parcel, bytes) and read_task_digest(outgoing.parcel):
            return outgoing
        recipient, sequence = outgoing.recipient, outgoing.sequence
        return Outgoing(recipient, sequence, seal(recipient, sequence, _open_parcel(outgoing.parcel)))

    return reseal


def _seal_envelope(
    identity: Identity, incarnation: int, task: Task, recipient: str, sequence: int, payload_type: str, payload: bytes
) -> bytes:
    return seal(
        identity,
        recipient=recipient,
        incarnation=incarnation,
        sequence=sequence,
        payload_type=payload_type,
        payload=payload,
        task=task.digest,
    )


def _make_host(
    config: AgentConfig,
    trust: Trust,
    messenger: Messenger,
    boots: BootCounter,
    incarnation: int,
    transports: Sequence[Transport],
) -> tuple[Host, PeerSampler | None]:
    """Return the agent's host and its PeerSampler, or None if the configuration lists the peers."""
    section, identity, now = config.membership, trust.identity, time.monotonic()
    if section.sampling == "static":
        peers = [Peer(peer.id, peer.address, peer_dns_name(peer.id, identity.fleet)) for peer in config.transport.peers]
        return Host(trust, peers, None), None
    author = Author(identity, config.transport.announced_addresses, config.transport.use)
    trust.subscribe(lambda: author.renew(trust.identity))
    rng = random.Random()  # noqa: S311 - the choice of the next peer is not secret: it is visible on the network
    sources = make_sources(section, config.transport, identity, transports, rng)
    book = AddressBook(config.agent.state / "peers.db", now)
    if book.replaced:
        _log.warning("address-book-replaced %s", book.replaced)
    membership = Membership(
        node_id=identity.node_id,
        settings=Settings(section.period, section.view_size, section.warm_size),
        incarnation=incarnation,
        issue=author.issue,
        verify=Verifier(trust).verify,
        seeds=[
            *(Contact(peer.id, (peer.address,)) for peer in config.transport.peers),
            *invitation_contacts(config.agent.state),
        ],
        book=book.contacts(),
        rng=rng,
        now=now,
        reaches=messenger.transport.reaches,
    )
    host = Host(trust, (), membership)
    sampler = PeerSampler(
        host=host,
        membership=membership,
        book=book,
        boots=boots,
        messenger=messenger,
        discovery=Discovery(sources, section.period, section.view_size, rng),
    )
    return host, sampler


async def run_agent(agent: Agent, *, embedded: bool = False) -> ExitCode:
    """Run the agent, and serve its metrics if configured; see Agent.run and observation.serve_observation."""
    if not embedded:
        asyncio.get_running_loop().set_default_executor(ThreadPool(DEFAULT_THREADS))
    with plugin_errors():
        if agent.config.observe.metrics is None:
            return await agent.run(embedded=embedded)
        from sottovoce.node.observation import serve_observation

        async with serve_observation(agent):
            return await agent.run(embedded=embedded)
