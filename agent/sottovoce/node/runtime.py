"""The running agent: one asyncio loop that drives the core, the vault, the links and the control socket.

The core runs in its own thread, one call at a time, because commits wait for the disk. The vault runs in another
thread. Any internal failure ends the agent with that failure's exit code; no failure is ignored.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.config import AgentConfig
from sottovoce.errors import ExitCode, SottovoceError
from sottovoce.fleet import Identity
from sottovoce.learning.learners import Ask, Forget, PublishModel, PublishSum, SetTimer, Shelve, TakePart
from sottovoce.net.quota import Quota
from sottovoce.net.transports import Peer, Transport
from sottovoce.net.wire import read_task_digest
from sottovoce.node.control import ControlServer
from sottovoce.node.core import Action, Core, Transmit
from sottovoce.node.departure import LEAVE_SECONDS, Departure
from sottovoce.node.faults import log_loop_error, notify_while_running
from sottovoce.node.gossip.result_book import read_results, with_fleet_documents
from sottovoce.node.host import Host
from sottovoce.node.link import Link, LinkTable
from sottovoce.node.links import Outgoing
from sottovoce.node.reception import Gossip, Inbox, Reception
from sottovoce.node.renewal import Renewal
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.node.status import build_fleet_report, build_status
from sottovoce.node.tasks import ANOTHER_TASK
from sottovoce.node.vault_session import VaultQueries
from sottovoce.node.waits import DailyCounter, DayWatch, Timers, Waits, make_file_throttle, make_ledger_throttle
from sottovoce.ops import Counters, RateLimitedLog
from sottovoce.ops.machine import release_free_memory
from sottovoce.plugins import plugin_errors
from sottovoce.privacy.api import CellQuery, Query
from sottovoce.privacy.vault import Spending, VaultInterface

if TYPE_CHECKING:  # imported late: only learners that use published records have a book
    from sottovoce.node.record_book import RecordStore

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 2.0
_TRIM_SECONDS = 300.0  # without it, gRPC's allocations spread over the heap by some 25 kB a minute at 3 cycles a second
WRITTEN = "written"
"""Name of the file in the state directory that contains the number of bytes written today."""


class Agent:
    """The agent of one device. Build it with sottovoce.node.assemble.assemble.

    Args:
        config: the configuration under the activated task.
        host: the surroundings that the agent shares with its parts.
        core: the learner's state machine, with its outbox and inbox.
        store: the durable state.
        book: the published records that the device holds; None if its learner does not use published records.
        vault: the vault.
        transport: sends and receives messages.
        counters: traffic counters, shared with the transport.
        quota: limits on the messages that each peer may send.
        gossip: the exchanges by which devices keep track of one another.
        renewal: renews the device's certificate.
        day_watch: reports ended days to a learner that follows a feed; None for other learners.
        waits: record of the waits in progress.

    Attributes:
        has_worked: whether the agent has reached its working state.
        switching_task: whether the agent has stopped in order to be assembled again with another fleet task.
        lifecycle_log: log of starts and stops, shared by the successive agents of a process.
    """

    def __init__(
        self,
        *,
        config: AgentConfig,
        host: Host,
        core: Core,
        store: SqliteStore,
        book: "RecordStore | None",
        vault: VaultInterface,
        transport: Transport,
        counters: Counters,
        quota: Quota,
        gossip: Gossip,
        renewal: Renewal,
        day_watch: DayWatch | None,
        waits: Waits,
    ) -> None:
        self.config = config
        self._host, self.trust = host, host.trust
        self.core, self._store, self._book = core, store, book
        self.vault = vault
        self.transport, self.counters = transport, counters
        self.head_gossip, self.revocations = gossip.heads, gossip.revocations
        self.tasks, self.roll_call, self.peer_sampling = gossip.tasks, gossip.roll_call, gossip.sampling
        self.results = gossip.results
        self._renewal, self._day_watch = renewal, day_watch
        self.waits = waits
        self.model: NDArray[np.float64] | None = None
        self.cycle = self.core.state.cycle
        self._link_table = LinkTable(host, make_link=self._make_link, on_forget=self.head_gossip.forget)
        self.links = self._link_table.links
        self._loop: asyncio.AbstractEventLoop
        self._core_lock = asyncio.Lock()
        self._stopping, self._spawn = host.stopping, host.spawn
        self._timers = Timers(self.waits, lambda name: self._spawn(self._fire_timer(name)))
        self.daily_writes = DailyCounter(config.agent.state / WRITTEN, config.agent.bytes_per_day)
        ledger_limit, ledger_written = config.ledger.bytes_per_day, lambda: self.spending.written_today
        throttle = make_ledger_throttle(ledger_limit, ledger_written, self.waits, self._stopping)
        self._vault_queries = VaultQueries(vault, self.head_gossip, waits, throttle, lambda: self._departure.has_begun)
        self._file_throttle = make_file_throttle(
            config.agent.bytes_per_day, self.daily_writes, self.waits, self._stopping
        )
        self._is_interrupted = self.has_worked = self.switching_task = False
        self.lifecycle_log = RateLimitedLog(_log)
        self._departure = Departure(
            core=self.core,
            head_gossip=self.head_gossip,
            links=self.links,
            has_left=lambda node: host.has_left(node) or not self.tasks.shares_task_with(node),
            hand_off=lambda successor: self.run_serially(lambda: self.core.hand_off(successor)),
        )
        self._reception = Reception(
            trust=self.trust,
            gossip=gossip,
            counters=self.counters,
            inbox=Inbox(
                core=self.core,
                tasks=self.tasks,
                quota=quota,
                departure=self._departure,
                run_serially=self.run_serially,
            ),
            on_message=self._link_table.wake_link,
            on_failure=host.fail,
        )
        self.tasks.subscribe(self._update_mixing_peers)

    async def run(self, *, embedded: bool = False) -> ExitCode:
        """Run until stopped.

        Args:
            embedded: whether the loop belongs to another program, whose signal and exception handlers stay unchanged.

        Returns:
            DONE after SIGTERM or `agent stop`, INTERRUPTED after Ctrl-C.

        Raises:
            SottovoceError: if something failed permanently.
        """
        self._loop = asyncio.get_running_loop()
        if not embedded:
            self._loop.set_exception_handler(log_loop_error)
            self._loop.add_signal_handler(signal.SIGTERM, self.stop)
            self._loop.add_signal_handler(signal.SIGINT, lambda: self.stop(interrupted=True))
        control = ControlServer(self.config.agent.state / "agent.sock", self, self.config.agent.readers_socket)
        self.trust.subscribe(self._exclude_revoked)
        try:
            await self.transport.start(self._reception.receive)
            await control.start()
            for peer in self._host.peers:
                self._link_table.open(peer)
            self.tasks.peers = tuple(self.links)
            await self.run_serially(lambda: self.core.start(self.tasks.announce_mixing_peers(), self._loop.time()))
            if self.peer_sampling is not None:
                self._spawn(self.peer_sampling.run(self._replace_peers))
            self._spawn(self.head_gossip.run())
            self._spawn(self.revocations.run())
            self._spawn(self._renewal.run())
            self._spawn(self._release_memory())
            if self.results is not None:
                self._spawn(self.results.run())
            self._spawn(self._follow_fleet_tasks())
            if self._day_watch is not None:
                self._spawn(self._day_watch.run(self._stopping, self._end_day))
            status = f"device {self.identity.node_id} is running"
            self._spawn(
                notify_while_running(self._stopping, self._host.disk, status, lambda: self._host.failure is None)
            )
            self.has_worked = True
            release_free_memory()
            node, addresses = self.identity.node_id, ",".join(self.config.transport.announced_addresses)
            self.lifecycle_log.log(logging.INFO, "ready", "ready id=%s at=%s", node, addresses)
            await self._stopping.wait()
        finally:
            try:
                await self._close(control)
            except (OSError, SottovoceError) as error:
                self._host.fail(error)
        if self._host.failure is not None:
            raise self._host.failure
        return ExitCode.INTERRUPTED if self._is_interrupted else ExitCode.DONE

    @property
    def identity(self) -> Identity:
        """This device's identity, with its current certificate."""
        return self.trust.identity

    @property
    def spending(self) -> Spending:
        """The ledger's totals after the vault's last answer."""
        return self._vault_queries.spending

    def stop(self, *, switching_task: bool = False, interrupted: bool = False) -> None:
        """Stop the agent cleanly."""
        self._is_interrupted |= interrupted
        self.switching_task = switching_task and not (self._stopping.is_set() or self._departure.has_begun)
        self._stopping.set()

    async def leave(self) -> dict[str, Any]:
        """Announce the departure, hand over this device's state to a peer, and stop; see Departure.wait_for_outcome."""
        if not self._departure.has_begun:
            self._departure.has_begun = True
            self._spawn(self._depart())
        return await self._departure.wait_for_outcome()

    async def _depart(self) -> None:
        self._timers.cancel()
        self.head_gossip.stop()
        self.waits.begin("leave", "a peer to take over this device's share", 2 * LEAVE_SECONDS)
        with contextlib.suppress(TimeoutError):  # a pending answer must be handed over too
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._vault_queries.wait_until_idle()
        if self.peer_sampling is not None:
            await self.peer_sampling.leave()
        await self._departure.hand_over(self._stopping, peers_informed=self.peer_sampling is not None)
        self.stop()

    def status(self) -> dict[str, Any]:
        """Return the document that `agent status --json` prints."""
        return build_status(self)

    async def fleet_report(self) -> dict[str, Any]:
        """Return the document that `fleet status --json` prints."""
        return await build_fleet_report(self)

    def retry_fleet_tasks(self) -> None:
        """Look for a fleet task that may begin now; see ControlTarget."""
        self.tasks.fleet_tasks.retry_now()

    async def list_results(self) -> list[str]:
        """Return the device's results, each as the text of a result file with the fleet's current documents."""

        def read_files() -> list[str]:
            state = self.config.agent.state
            results = read_results(state) if self.results is None else self.results.book.results
            return [with_fleet_documents(document, state).encoding.decode() for document in results]

        return await self._host.run_on_disk(read_files)

    def _make_link(self, peer: Peer) -> Link:
        transport = self.config.transport
        return Link(
            peer=peer,
            transport=self.transport,
            head_gossip=self.head_gossip,
            on_confirmed=self._handle_confirmation,
            on_refused=self._handle_refusal,
            on_failed_attempt=(lambda _: None) if self.peer_sampling is None else self.peer_sampling.note_failure,
            counters=self.counters,
            waits=self.waits,
            timeout=transport.timeout,
            backoff=transport.backoff,
            backoff_max=transport.backoff_max,
        )

    async def _follow_fleet_tasks(self) -> None:
        if await self.tasks.fleet_tasks.run():
            self.stop(switching_task=True)

    async def _update_mixing_peers(self) -> None:
        """Give the learner the peers with which it may mix: those that have this device's task."""
        if not self._stopping.is_set():
            await self.run_serially(
                lambda: self.core.replace_peers(self.tasks.announce_mixing_peers(), self._loop.time())
            )

    async def _replace_peers(self, peers: list[Peer]) -> None:
        """Replace the peers in the link table, the tasks and the core."""
        if self._stopping.is_set():
            return
        self._link_table.replace_peers(peers)
        self.tasks.peers = tuple(peer.id for peer in peers)
        await self._update_mixing_peers()
        for outgoing in self.core.outbox:
            if outgoing.recipient not in self.links:
                self._link_table.offer(outgoing)

    async def run_serially(self, operation: Callable[[], list[Action]]) -> None:
        """Run an operation on the core, and carry out the resulting actions; only one operation runs at a time."""
        async with self._core_lock:
            actions = await self._host.run_on_disk(lambda: self._operate(operation))
            self._carry_out(actions)

    def _operate(self, operation: Callable[[], list[Action]]) -> list[Action]:
        """Run an operation on the core's thread, then store new published records and count the bytes written."""
        with plugin_errors():  # here, because a message's sender is refused and this device stops, whatever fails
            actions = operation()
        for action in actions:
            if isinstance(action, Shelve) and self._book is not None:
                self._book.update(action.new, action.gone)
        self.daily_writes.update()
        return actions

    def _carry_out(self, actions: list[Action]) -> None:
        if self._stopping.is_set():
            return  # after the next start, queries, messages and timers are restored from the store
        for action in actions:
            match action:
                case Transmit(outgoing):
                    self._link_table.offer(outgoing)
                case SetTimer(name, at) if not self._departure.has_begun:
                    self._timers.set(name, at)
                case Ask(query) if not self._departure.has_begun:
                    self._spawn(self._ask_vault(query))
                case TakePart(step) if not self._departure.has_begun:
                    self._spawn(self._ask_vault(step))
                case Forget(recipient):
                    self._link_table.forget(recipient)
                    if recipient in self.tasks.peers and (peer := self._host.find_known(recipient)) is not None:
                        # A peer with another task receives everything except the model, over a new link.
                        self._link_table.open(peer)
                case PublishModel(parameters, cycle):
                    self.model, self.cycle, self._host.has_model = parameters, cycle, True
                case PublishSum() as opened if self.results is not None:
                    self._spawn(self.results.publish(opened))

    async def _release_memory(self) -> None:
        """Return the gaps that messages leave in the heap to the operating system, until the agent stops."""
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TRIM_SECONDS)
            await self._host.run_on_disk(release_free_memory)

    def _exclude_revoked(self) -> None:
        """Exclude the devices that the fleet has revoked."""
        revoked = self.trust.revoked
        for node in revoked & self.links.keys():
            self._link_table.forget(node)
        if self.peer_sampling is not None:
            self.peer_sampling.expel(revoked)
        elif not self._stopping.is_set():
            self.tasks.peers = tuple(self.links)
            self._spawn(self._update_mixing_peers())

    async def _fire_timer(self, name: str) -> None:
        if await self._file_throttle.wait_if_needed():
            await self.run_serially(lambda: self.core.fire(name, self._loop.time()))

    async def _end_day(self, day: int) -> None:
        await self.run_serially(lambda: self.core.end_windows(day, self._loop.time()))

    async def _ask_vault(self, query: Query | CellQuery) -> None:
        answer = await self._vault_queries.ask(query)
        if answer is not None:
            self._spawn(self.head_gossip.notify_witnesses())
            await self.run_serially(lambda: self.core.apply_answer(query, answer, self._loop.time()))

    async def _handle_confirmation(self, outgoing: Outgoing, reply: tuple[str, bytes] | None) -> None:
        if self.peer_sampling is not None:
            self.peer_sampling.note_success(outgoing.recipient)
        await self._reception.handle_confirmation(outgoing, reply)
        self._departure.note_progress()

    async def _handle_refusal(self, outgoing: Outgoing, reason: str) -> None:
        """Take back a share that a peer has permanently refused."""
        if reason == ANOTHER_TASK and isinstance(outgoing.parcel, bytes):
            self.tasks.note_refusal(outgoing.recipient, read_task_digest(outgoing.parcel))
        await self.run_serially(lambda: self.core.take_back(outgoing.recipient, outgoing.sequence, self._loop.time()))
        self._departure.note_progress()

    async def _close(self, control: ControlServer) -> None:
        """Finish work in progress, make everything durable, and close all components, even if closing one fails."""
        async with contextlib.AsyncExitStack() as stack:
            for part in (self.daily_writes, self._store, self.head_gossip, self._book, self.peer_sampling):
                if part is not None:
                    stack.callback(part.close)
            stack.callback(lambda: None if self._host.failure else self.core.flush())
            stack.push_async_callback(asyncio.to_thread, self.vault.close)
            stack.push_async_callback(asyncio.to_thread, self._host.disk.shutdown)
            stack.push_async_callback(control.stop)
            await self._finish_work()
        node, charges = self.identity.node_id, self.spending.charges
        self.lifecycle_log.log(logging.INFO, "stopped", "stopped id=%s charges=%d", node, charges)

    async def _finish_work(self) -> None:
        """Stop accepting new work, and wait for work in progress."""
        self._timers.cancel()
        for link in self.links.values():
            link.stop()
        self.head_gossip.stop()
        self.revocations.stop()
        self._renewal.stop()
        if self.results is not None:
            self.results.stop()
        if self.peer_sampling is not None:
            self.peer_sampling.stop()
            await self.peer_sampling.leave()
        await self.transport.stop(_GRACE_SECONDS)
        await self._host.finish_tasks(self.config.transport.timeout + _GRACE_SECONDS)
        self._departure.report_outcome()
