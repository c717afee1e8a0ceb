"""Gossip of the fleet's revocation list: a device stores the list, exchanges it with peers, and enforces it.

A list spreads in two ways. A device with a new list sends it to each linked peer once. In addition, once per period,
every device asks one of its peers which list that peer has, so a device that was switched off or disconnected also
receives the list. While a fleet has not revoked any device, each such request takes about 250 bytes.
"""

import asyncio
import logging
import random
from collections import OrderedDict
from pathlib import Path

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import Identity, load
from sottovoce.fleet.authority import FleetAuthority
from sottovoce.fleet.identity import IDENTITY
from sottovoce.net.transports import Peer
from sottovoce.net.wire.revocation import (
    REVOCATIONS,
    RevocationList,
    Revocations,
    decode_revocations,
    encode_revocations,
)
from sottovoce.node.gossip.messenger import DocumentGossip, Messenger
from sottovoce.node.gossip.revocation_store import load_revocation_list, store_key_changes, store_revocation_list
from sottovoce.node.host import Host

_log = logging.getLogger(__name__)
_WAIT = "revocations"
_REVOCATION_NOTICE_SECONDS = 60.0
_MAX_REMEMBERED = 256
_MAX_GROWTH = 16  # of the period while no request brings news; a new list is also sent without being requested


class RevocationGossip:
    """A device's side of the revocation-list gossip.

    Args:
        host: the agent's surroundings; its trust refuses revoked devices.
        state: directory in which the list is stored.
        messenger: sends messages to peers.
        period: seconds between requests to peers, before jitter.

    Raises:
        IdentityError: if the stored list is corrupt or contains this device.
    """

    def __init__(self, *, host: Host, state: Path, messenger: Messenger, period: float) -> None:
        self._host, self._trust = host, host.trust
        self._state, self._identity = state, state / IDENTITY
        self._messenger = messenger
        self._period = period
        self._wake_event = asyncio.Event()
        self._stopping = False
        self._gossip = DocumentGossip(
            messenger, REVOCATIONS, encode_revocations, decode_revocations, self._current_offer, self._accept_list
        )
        self._notified_at: OrderedDict[str, float] = OrderedDict()
        self.current_list = (
            load_revocation_list(state, self._trust.identity.authority)
            if self._trust.identity.mode == "fleet-ca"
            else None
        )
        if self.current_list is not None:
            self._enforce(self.current_list, self._apply_key_changes(self.current_list))

    @property
    def version(self) -> int:
        """Return the version of the current list, or 0 if there is none."""
        return 0 if self.current_list is None else self.current_list.version

    @property
    def rank(self) -> int:
        """Return the version by which the current list is compared with other lists, or 0 if there is none."""
        return 0 if self.current_list is None else self.current_list.rank

    @property
    def revoked(self) -> frozenset[str]:
        """Node ids of the devices on the current list."""
        return self._trust.revoked

    async def run(self) -> None:
        """Send and request the list until stopped."""
        if self._trust.identity.mode != "fleet-ca":
            return  # without a fleet CA, no device can be revoked
        period = self._period
        while not self._stopping:
            pause = period * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
            self._messenger.waits.begin(_WAIT, "the next request for revocations", pause)
            self._wake_event.clear()
            try:
                await asyncio.wait_for(self._wake_event.wait(), pause)
            except TimeoutError:
                period = min(2 * period, _MAX_GROWTH * self._period)
                await self._ask_random_peer()
            else:
                period = self._period
            await self._inform_peers()
        self._messenger.waits.end(_WAIT)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping = True
        self._wake_event.set()

    async def reload(self) -> None:
        """Read the list's file again, because an operator may have replaced it.

        Raises:
            IdentityError: if this device is on the list.
        """
        try:
            stored_list = await self._host.run_on_disk(
                lambda: load_revocation_list(self._state, self._trust.identity.authority)
            )
        except IdentityError as error:
            _log.error("revocations-not-read %s", error)
            return
        if stored_list is not None and stored_list.rank > self.rank:
            await self._adopt(stored_list)

    async def receive(self, sender: str, payload: bytes) -> bytes:
        """Process a peer's list and answer with this device's; a revoked device is answered at most once a minute.

        Raises:
            MessageRefused: if the list is malformed or not signed by the fleet, or a revoked device asks too often.
            IdentityError: if this device is revoked.
        """
        offer = decode_revocations(payload)
        if self._trust.is_revoked(sender):
            self._admit_revoked(sender)
        return await self._gossip.answer(sender, offer)

    async def _ask_random_peer(self) -> None:
        """Ask a randomly chosen peer for its list."""
        if peers := self._host.linked_peers():
            await self._exchange_with(random.choice(peers))  # noqa: S311 - the choice of peer is not secret

    async def _inform_peers(self) -> None:
        """Send the list to each peer not known to have it, one at a time; retry later those that do not answer."""
        for peer in self._host.linked_peers():
            if not self._stopping and self._gossip.known_version(peer.id) < self.rank:
                await self._exchange_with(peer)

    async def _exchange_with(self, peer: Peer) -> None:
        if (failure := await self._gossip.exchange_with(peer)) is not None:
            _log.debug("revocations-not-told %s", failure)

    def _current_offer(self) -> Revocations:
        return Revocations(self.rank, self.current_list)

    async def _accept_list(self, peer: str, revoked: RevocationList) -> None:
        """Verify, store and adopt a list if it is newer than the current list."""
        if revoked.rank <= self.rank:
            return
        authority = self._trust.identity.authority
        try:
            revoked.verify(authority)
        except IdentityError as error:
            raise MessageRefused("signature", f"{peer} sent an invalid revocation list: {error}") from error
        await self._host.run_on_disk(lambda: store_revocation_list(self._state, revoked, authority))
        if revoked.rank > self.rank:
            await self._adopt(revoked)

    async def _adopt(self, revoked: RevocationList) -> None:
        identity = await self._host.run_on_disk(lambda: self._apply_key_changes(revoked))
        if revoked.rank <= self.rank:
            return  # a newer list has arrived in the meantime
        previously_revoked, keys = self._trust.revoked, self.current_list.keys if self.current_list is not None else ()
        self.current_list = revoked
        self._enforce(revoked, identity)
        if revoked.keys != keys:
            _log.warning("fleet-keys-changed changes=%d until=%d", len(revoked.keys), revoked.keys[-1].until)
        _log.warning(
            "revoked version=%d devices=%d new=%s",
            revoked.version,
            len(revoked.node_ids),
            ",".join(sorted(self._trust.revoked - previously_revoked)) or "none",
        )
        self._wake_event.set()

    def _apply_key_changes(self, revoked: RevocationList) -> Identity | None:
        """Store the key changes in a list, and return the identity under the new keys, or None if it is unchanged."""
        if store_key_changes(self._identity, revoked.keys) or _is_identity_outdated(revoked, self._trust.identity):
            return load(self._identity, check_dates=False)
        return None

    def _enforce(self, revoked: RevocationList, identity: Identity | None) -> None:
        """Refuse the devices on a list.

        Args:
            revoked: the list.
            identity: the result of `_apply_key_changes`.

        Raises:
            IdentityError: if this device is on the list.
        """
        if identity is not None:
            self._trust.renew(identity)
        node_id = self._trust.identity.node_id
        if node_id in revoked.node_ids:
            raise IdentityError(
                f"this device ({node_id}) was revoked by fleet {revoked.fleet!r} in version {revoked.version} of its "
                "revocation list and no longer takes part. If this is a mistake, contact the fleet's key "
                "holder; otherwise, enrol a new device with `sottovoce fleet join`"
            )
        self._trust.revoke(revoked.node_ids)

    def _admit_revoked(self, sender: str) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._notified_at.get(sender, float("-inf")) < _REVOCATION_NOTICE_SECONDS:
            raise MessageRefused("revoked", f"device {sender} has been revoked by its fleet and was already notified")
        self._notified_at[sender] = loop.time()
        if len(self._notified_at) > _MAX_REMEMBERED:
            self._notified_at.popitem(last=False)


def _is_identity_outdated(revoked: RevocationList, identity: Identity) -> bool:
    """Return whether this identity was loaded before the key changes that a list contains."""
    authority = identity.authority
    if not isinstance(authority, FleetAuthority) or not revoked.keys:
        return False
    return authority.with_changes(revoked.keys).certificate != authority.certificate
