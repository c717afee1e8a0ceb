"""Change of a fleet's key: devices notify one another, and the previous key's signatures no longer count."""

import asyncio
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sottovoce.errors import IdentityError
from sottovoce.fleet import Identity, load, verify_peer_certificate
from sottovoce.fleet.authority import RetiredKeyError
from sottovoce.fleet.files import read
from sottovoce.fleet.fleet_keys import MAX_CHANGES, decode_changes, encode_changes, rank
from sottovoce.fleet.identity import FLEET_CERTIFICATE, FLEET_KEYS, IDENTITY, TLS_CERTIFICATE
from sottovoce.fleet.renewal import install_certificate, make_renewal_request, renewal_time
from sottovoce.fleet.signed_task import SignedTask, load_task, store_task
from sottovoce.net.wire.revocation import RevocationList, decode_list, encode_list
from sottovoce.node.gossip.revocation_store import NAME, read_list, store_key_changes, store_revocation_list
from sottovoce_operator.fleet import Fleet, create_fleet, enrol, open_fleet
from sottovoce_operator.fleet.ca import SPARE
from sottovoce_operator.fleet.request import read_request
from sottovoce_operator.fleet.rotation import rotate, rotate_with_spare
from sottovoce_operator.fleet.signing import propose, revoke

from tests.unit.node.test_agent_revocation import Node

MONTH = 30 * 86_400
TABLES: dict[str, dict[str, Any]] = {"task": {"name": "digits"}, "data": {"features": 64}}


class Street:
    """A fleet's directory, its spare key elsewhere, and devices that gossip."""

    def __init__(self, directory: Path, devices: int) -> None:
        self.authority, self.spare = directory / "authority", directory / "safe"
        self.fleet = create_fleet(self.authority, "street")
        shutil.move(self.authority / SPARE, self.spare)
        self.net: dict[str, Node] = {}
        self.nodes = [Node(self.fleet, directory / f"d{i}", self.net) for i in range(devices)]
        for node in self.nodes:
            node.meet(*(other for other in self.nodes if other is not node))

    def listed(self) -> RevocationList:
        """Return the fleet's newest signed list."""
        return decode_list((self.authority / NAME).read_bytes())

    async def gossip(self, first: Node, revoked: RevocationList) -> None:
        """Give one device a list, which it and its recipients pass on."""
        store_revocation_list(first.state, revoked, first.trust.identity.authority)
        await first.revocations.reload()
        for _ in range(3):
            for node in self.nodes:
                if not node.down:
                    await node.revocations._inform_peers()

    def knows(self, node: Node, fleet: Fleet) -> bool:
        authority = node.trust.identity.authority
        return authority.roots.startswith(fleet.authority.roots.split(b"-----END")[0])


@pytest.fixture
def street(tmp_path: Path) -> Street:
    return Street(tmp_path, 12)


def certificate(identity: Identity) -> bytes:
    return identity.tls_cert_pem


def test_new_key_reaches_twelve_devices_of_which_four_were_offline(street: Street) -> None:
    off = street.nodes[:4]
    for node in off:
        node.down = True
    fleet = rotate(street.authority, MONTH)
    asyncio.run(street.gossip(street.nodes[5], street.listed()))
    assert [street.knows(node, fleet) for node in street.nodes] == [False] * 4 + [True] * 8
    for node in off:
        node.down = False
        for other in street.nodes:  # both still use certificates signed with the previous key
            verify_peer_certificate(certificate(other.identity), node.trust.identity)
            verify_peer_certificate(certificate(node.identity), other.trust.identity)
    asyncio.run(street.gossip(street.nodes[5], street.listed()))
    assert all(street.knows(node, fleet) for node in street.nodes)
    for node in street.nodes:
        assert load(node.state / IDENTITY).retired is not None, "and after a restart"


def test_the_previous_key_s_signatures_no_longer_count(street: Street) -> None:
    before, node = street.fleet, street.nodes[0]
    propose(street.authority, before, TABLES, {})
    fleet = rotate(street.authority, MONTH)
    asyncio.run(street.gossip(node, street.listed()))
    authority = node.trust.identity.authority
    old = SignedTask(fleet="street", epoch=9, issued=0, tables=TABLES).sign(before.sign)
    with pytest.raises(RetiredKeyError, match=r"'street'.*retired"):
        old.verify(authority)
    forged = RevocationList("street", 2**31, 0, (node.id,)).sign(before.sign)
    with pytest.raises(IdentityError, match="retired"):
        read_list(encode_list(forged), authority, "it")
    repeated = load_task(street.authority, fleet.authority)
    assert repeated is not None
    repeated.verify(authority)
    assert (repeated.epoch, repeated.tables) == (1, TABLES), "the fleet's task is signed again"
    with pytest.raises(RetiredKeyError):
        structs.replace(repeated, keys=(), signature="").sign(before.sign).verify(authority)


def test_a_task_carries_the_new_key_to_uninformed_parties(street: Street) -> None:
    """An example is a vault in a separate process."""
    node = street.nodes[0]
    rotate(street.authority, MONTH)
    task = propose(street.authority, open_fleet(street.authority), TABLES, {})
    task.verify(node.trust.identity.authority)
    assert store_key_changes(node.state / IDENTITY, task.keys)
    assert load(node.state / IDENTITY).authority.roots.startswith(b"-----BEGIN")
    assert store_task(node.state, task, load(node.state / IDENTITY).authority)


def test_the_spare_key_takes_over_when_the_first_is_destroyed(street: Street, tmp_path: Path) -> None:
    node = street.nodes[0]
    revoked = revoke(street.authority, street.fleet, [street.nodes[11].id])
    street.nodes[11].down = True
    asyncio.run(street.gossip(node, revoked))
    shutil.rmtree(street.authority)
    with pytest.raises(IdentityError, match="state directory"):
        rotate_with_spare(street.authority, street.spare, None, MONTH)
    fleet = rotate_with_spare(street.authority, street.spare, node.state, MONTH)
    assert street.listed().node_ids == (street.nodes[11].id,), "a revoked device stays revoked"
    asyncio.run(street.gossip(node, street.listed()))
    assert all(street.knows(other, fleet) for other in street.nodes[:11])
    repeated = open_fleet(street.authority)
    assert repeated.certificate == fleet.certificate
    newer = enrol(repeated, tmp_path / "new")
    verify_peer_certificate(certificate(newer), node.trust.identity)
    shutil.move(street.authority / SPARE, tmp_path / "safe2")
    third = rotate_with_spare(street.authority, tmp_path / "safe2", None, MONTH)
    asyncio.run(street.gossip(node, street.listed()))
    assert street.knows(node, third)


def test_only_the_spare_key_overrules_a_thief_of_the_key(street: Street, tmp_path: Path) -> None:
    shutil.copytree(street.authority, tmp_path / "stolen")
    for _ in range(MAX_CHANGES - 1):
        rotate(tmp_path / "stolen", MONTH)
    thief = rotate(tmp_path / "stolen", MONTH)
    stolen = decode_list((tmp_path / "stolen" / NAME).read_bytes())
    victim, bystander = street.nodes[0], street.nodes[1]
    for node in street.nodes[1:]:
        node.down = True
    asyncio.run(street.gossip(victim, stolen))
    assert street.knows(victim, thief)
    honest = rotate(street.authority, MONTH)
    with pytest.raises(IdentityError, match="follow"):
        street.listed().verify(victim.trust.identity.authority)
    shutil.rmtree(street.authority / SPARE, ignore_errors=True)
    fleet = rotate_with_spare(street.authority, street.spare, None, MONTH)
    assert honest.certificate != fleet.certificate
    for node in street.nodes:
        node.down = False
    asyncio.run(street.gossip(bystander, street.listed()))
    assert all(street.knows(node, fleet) for node in street.nodes), "the victim as well"
    with pytest.raises(IdentityError):
        stolen.verify(victim.trust.identity.authority)
    verify_peer_certificate(certificate(bystander.identity), victim.trust.identity)
    with pytest.raises(IdentityError, match=r"issued.*fleet"):
        verify_peer_certificate(certificate(enrol(thief, tmp_path / "smuggled")), victim.trust.identity)


def test_the_previous_key_s_certificates_expire_at_the_announced_time(street: Street) -> None:
    node, other = street.nodes[:2]
    rotate(street.authority, MONTH)
    asyncio.run(street.gossip(node, street.listed()))
    identity, now = node.trust.identity, datetime.now(UTC)
    assert timedelta(days=29) < identity.not_after - now <= timedelta(days=30)
    due = renewal_time(identity) - now
    assert timedelta(days=19) < due < timedelta(days=23), "in time, but not before absent devices can return"
    with pytest.raises(IdentityError, match=r"'street'.*retired"):
        verify_peer_certificate(certificate(other.identity), identity, now + timedelta(days=31))
    request = make_renewal_request(node.state / IDENTITY)
    fleet = open_fleet(street.authority)
    renewed = fleet.renew(read_request(request, "it"), ())
    install_certificate(node.state / IDENTITY, renewed, "it")
    after = load(node.state / IDENTITY)
    assert (after.retired, after.not_after - now > timedelta(days=80)) == (None, True)
    verify_peer_certificate(certificate(after), after)


def test_an_older_fleet_gets_a_spare_key_with_its_first_change(tmp_path: Path) -> None:
    fleet = create_fleet(tmp_path / "authority", "street")
    old = fleet.authority.roots
    (tmp_path / "authority" / FLEET_CERTIFICATE).write_bytes(old)
    shutil.rmtree(tmp_path / "authority" / SPARE)
    device = enrol(open_fleet(tmp_path / "authority"), tmp_path / "d" / IDENTITY)
    assert (tmp_path / "d" / IDENTITY / FLEET_CERTIFICATE).read_bytes() == old
    changed = rotate(tmp_path / "authority", MONTH)
    assert (tmp_path / "authority" / SPARE / "ca.key").exists()
    later = device.authority.with_changes(changed.changes)
    assert later.roots.startswith(changed.authority.roots[:100])


@pytest.mark.parametrize("cut", range(10))
def test_a_power_cut_leaves_the_old_key_or_the_new(street: Street, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    before, calls = open_fleet(street.authority).certificate, iter(range(99))

    def rename(source: Path, target: Path) -> None:
        if next(calls) >= cut:
            raise OSError(5, "power cut")
        source.rename(target)

    with monkeypatch.context() as patched:
        for module in ("sottovoce.fleet.files", "sottovoce_operator.fleet.staging"):
            patched.setattr(f"{module}.rename", rename)
        with pytest.raises(IdentityError) if cut < 9 else nullcontext():
            rotate(street.authority, MONTH)
    result = open_fleet(street.authority)
    assert (result.certificate == before) == (not result.changes) == (cut < 5), "a partial move is completed"
    assert cut < 5 or street.listed().keys == result.changes


def test_changes_are_accepted_only_in_canonical_form_and_in_order(street: Street) -> None:
    fleet = rotate(street.authority, MONTH)
    fleet = rotate(street.authority, MONTH)
    anchors = street.fleet.authority
    raw = encode_changes(fleet.changes)
    assert decode_changes(raw, "it") == fleet.changes
    assert anchors.with_changes(fleet.changes).certificate == fleet.certificate
    assert rank(fleet.changes) == 2
    swapped = tuple(reversed(fleet.changes))
    forged = (structs.replace(fleet.changes[0], until=2**40), fleet.changes[1])
    for changes in (swapped, forged, fleet.changes[:1] + swapped):
        with pytest.raises(IdentityError):
            anchors.with_changes(changes)
    for bad in (b"[]", b"{}", raw + b" ", b"\xff", encode_changes(fleet.changes * 7)):
        with pytest.raises(IdentityError, match=r"changes.*fleet"):
            decode_changes(bad, "it")


def test_another_fleet_s_key_and_a_false_spare_key_change_nothing(street: Street, tmp_path: Path) -> None:
    other = create_fleet(tmp_path / "other", "lane")
    with pytest.raises(IdentityError, match=r"spare.*'street'"):
        rotate_with_spare(street.authority, tmp_path / "other" / SPARE, None, MONTH)
    assert open_fleet(street.authority).changes == ()
    assert other.name == "lane"
    for _ in range(MAX_CHANGES):
        rotate(street.authority, MONTH)
    with pytest.raises(IdentityError, match="12 times"):
        rotate(street.authority, MONTH)
    assert len(encode_list(street.listed())) < 128 * 2**10
    assert read(street.authority / FLEET_KEYS) == encode_changes(street.listed().keys)
    assert not (street.authority / TLS_CERTIFICATE).exists()
