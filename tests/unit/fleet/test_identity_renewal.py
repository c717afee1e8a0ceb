from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import DER_cert_to_PEM_cert
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.errors import ClockError, IdentityError
from sottovoce.fleet import Identity, Trust, Validity, load, trust as trust_module, verify_peer_certificate
from sottovoce.fleet.clock import ClockFloor
from sottovoce.fleet.pinned import enrol_pinned
from sottovoce.fleet.renewal import install_certificate, make_renewal_request, renewal_time
from sottovoce.fleet.verification import Subject
from sottovoce_operator.fleet import Fleet, enrol
from sottovoce_operator.fleet.request import MAX_REQUEST_BYTES, read_request

NOW = datetime.now(UTC)


def test_renewal_is_due_between_two_thirds_and_three_quarters_of_the_lifetime(fleet: Fleet, tmp_path: Path) -> None:
    begin, lifetime = NOW.replace(microsecond=0) - timedelta(days=5), timedelta(days=90)
    shares = set()
    for number in range(8):
        identity = enrol(fleet, tmp_path / str(number), validity=Validity(begin, begin + lifetime))
        share = (renewal_time(identity) - begin) / lifetime
        assert 2 / 3 <= share < 3 / 4
        assert renewal_time(load(tmp_path / str(number))) == renewal_time(identity), "a restart changes nothing"
        shares.add(share)
    assert len(shares) == 8, "not all at once"


def test_a_request_identifies_its_device_and_cannot_be_altered(
    fleet: Fleet, device: Identity, device_directory: Path, tmp_path: Path
) -> None:
    pem = make_renewal_request(device_directory)
    request = read_request(pem, "r")
    assert request.node_id == device.node_id
    assert request.current is not None
    assert request.current.public_bytes(Encoding.PEM) == device.tls_cert_pem
    der = x509.load_pem_x509_csr(pem).public_bytes(Encoding.DER)
    for at in range(0, len(der), 5):
        altered = der[:at] + bytes([der[at] ^ 1]) + der[at + 1 :]
        with pytest.raises(IdentityError):
            read_request(DER_cert_to_PEM_cert(altered).replace("CERTIFICATE", "CERTIFICATE REQUEST").encode(), "r")
    for nonsense in (b"", b"nonsense", device.tls_cert_pem, pem + device.tls_cert_pem, pem + b" " * MAX_REQUEST_BYTES):
        with pytest.raises(IdentityError, match=r"incomplete|large"):
            read_request(nonsense, "r")


def test_only_the_fleet_s_devices_are_renewed(
    fleet: Fleet, namesake: Fleet, device_directory: Path, device: Identity, expired: Identity, tmp_path: Path
) -> None:
    own = read_request(make_renewal_request(device_directory), "r")
    with pytest.raises(IdentityError, match="revoked"):
        fleet.renew(own, {device.node_id})
    with pytest.raises(IdentityError, match=r"issued.*fleet"):
        namesake.renew(own, ())
    bare = make_renewal_request(device_directory).partition(b"-----BEGIN CERTIFICATE-----")[0]
    with pytest.raises(IdentityError, match=r"current.*certificate"):
        fleet.renew(read_request(bare, "r"), ())
    with pytest.raises(IdentityError, match=r"different.*device"):
        fleet.renew(read_request(bare + expired.tls_cert_pem, "r"), ())
    late = fleet.renew(read_request(make_renewal_request(tmp_path / "expired"), "r"), ())
    install_certificate(tmp_path / "expired", late, "c")
    assert load(tmp_path / "expired").node_id == expired.node_id


def test_a_renewed_certificate_replaces_the_old_one_atomically(
    fleet: Fleet, device: Identity, device_directory: Path, tmp_path: Path
) -> None:
    other = enrol(fleet, tmp_path / "other")
    request = read_request(make_renewal_request(device_directory), "r")
    early = Validity(NOW + timedelta(days=1), NOW + timedelta(days=200))
    for pem, words in (
        (other.tls_cert_pem, "does not belong to this device"),
        (fleet.issue(request, Validity.from_now(3)), "expires before the current"),
        (fleet.issue(request, early), "is not valid before"),
        (b"nonsense", "is not a single PEM certificate"),
    ):
        with pytest.raises(IdentityError, match=words):
            install_certificate(device_directory, pem, "c")
        assert load(device_directory).tls_cert_pem == device.tls_cert_pem
    renewed = fleet.renew(request, (), Validity.from_now(120))
    ends = install_certificate(device_directory, renewed, "c")
    repeated = load(device_directory)
    assert (repeated.tls_cert_pem, repeated.not_after, repeated.node_id) == (renewed, ends, device.node_id)
    assert repeated.tls_key_pem == device.tls_key_pem


def test_a_trust_notifies_subscribers_and_keeps_its_device(fleet: Fleet, device: Identity, tmp_path: Path) -> None:
    other = enrol(fleet, tmp_path / "other")
    trust, reported = Trust(device), []
    trust.subscribe(lambda: reported.append(trust.revoked))
    assert trust.verify(other.certificate_der).node_id == other.node_id
    trust.revoke([other.node_id])
    assert trust.is_revoked(other.node_id)
    with pytest.raises(IdentityError, match="revoked"):
        trust.verify(other.certificate_der)
    assert trust.authenticate(other.tls_cert_pem) == other.node_id, "so it can receive the reason"
    with pytest.raises(IdentityError, match="restart"):
        trust.renew(other)
    assert trust.identity is device
    trust.renew(device)
    trust.revoke([])
    assert reported == [{other.node_id}, {other.node_id}, frozenset()]


def test_a_certificate_is_verified_once_and_compared_with_the_clock_at_every_call(
    fleet: Fleet, device: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, verified = enrol(fleet, tmp_path / "other"), []
    verify = verify_peer_certificate

    def verify_and_count(pem: bytes, identity: Identity, now: datetime | None = None) -> Subject:
        verified.append(pem)
        return verify(pem, identity, now)

    monkeypatch.setattr(trust_module, "verify_peer_certificate", verify_and_count)
    trust = Trust(device)
    for _ in range(3):
        assert trust.authenticate(other.tls_cert_pem) == other.node_id
    assert len(verified) == 1
    trust.renew(device)
    assert trust.authenticate(other.tls_cert_pem) == other.node_id
    assert len(verified) == 2, "the trusted issuer may have changed"
    with pytest.raises(IdentityError):
        trust.authenticate(other.tls_cert_pem.replace(b"A", b"B", 1))
    beyond = {"expired": other.not_after + timedelta(seconds=1), "before": datetime(2020, 1, 1, tzinfo=UTC)}
    for words, moment in beyond.items():
        monkeypatch.setattr(trust_module, "datetime", SimpleNamespace(now=lambda _, moment=moment: moment))
        with pytest.raises(IdentityError, match=words):
            trust.authenticate(other.tls_cert_pem)


def test_only_the_newest_certificates_are_cached(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_module, "_MAX_VERIFIED", 2)
    devices = [enrol(fleet, tmp_path / str(i)) for i in range(4)]
    trust = Trust(devices[0])
    for other in devices:
        assert trust.authenticate(other.tls_cert_pem) == other.node_id
    assert len(trust._verified_subjects) == 2


def test_without_trusted_ids_there_is_no_trust(tmp_path: Path) -> None:
    enrol_pinned(tmp_path / "a", "home")
    with pytest.raises(IdentityError, match="pinned"):
        Trust(load(tmp_path / "a"))


def test_another_user_is_not_advised_to_remove_the_clock_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_read(path: Path, encoding: str) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse_to_read)
    with pytest.raises(IdentityError, match="permission"):
        ClockFloor(tmp_path / "clock").check(NOW)


class Machine:
    """A machine whose clock is not synchronised unless stated otherwise."""

    def __init__(self, path: Path) -> None:
        self.path, self.boots, self.synchronised = path / "clock", 0, False

    def boot(self) -> ClockFloor:
        self.boots += 1
        boot = str(self.boots)
        return ClockFloor(self.path, lambda: self.synchronised, lambda: boot)


def test_a_clock_earlier_than_two_boots_have_shown_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    first = machine.boot()
    first.check(datetime(1970, 1, 1, tzinfo=UTC))
    first.record(NOW)
    second = machine.boot()
    second.check(NOW + timedelta(days=1))
    second.record(NOW + timedelta(days=1))
    third = machine.boot()
    third.check(NOW - timedelta(minutes=9))
    with pytest.raises(ClockError, match="clock"):
        third.check(NOW - timedelta(minutes=11))
    machine.synchronised = True
    third.check(NOW - timedelta(minutes=11))
    machine.path.write_text("yesterday")
    with pytest.raises(IdentityError, match=r"clock.*delete"):
        third.check(NOW)


@pytest.mark.parametrize("starts", [1, 3])
def test_a_clock_that_was_ahead_during_one_boot_is_corrected(
    tmp_path: Path, starts: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path)
    machine.boot().record(NOW)
    ahead = machine.boot()
    for start in range(starts):
        ahead.check(NOW + timedelta(days=1, hours=start))
        ahead.record(NOW + timedelta(days=1, hours=start))
    right = machine.boot()
    right.check(NOW + timedelta(hours=4))
    assert "clock-taken-back" in caplog.text
    right.record(NOW + timedelta(hours=4))
    later = machine.boot()
    later.check(NOW + timedelta(hours=5))
    later.record(NOW + timedelta(hours=5))
    with pytest.raises(ClockError):
        machine.boot().check(NOW + timedelta(hours=3))


def test_a_synchronised_clock_is_accepted_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.synchronised = True
    machine.boot().record(NOW)
    machine.synchronised = False
    with pytest.raises(ClockError):
        machine.boot().check(NOW - timedelta(hours=1))


def test_an_earlier_release_s_file_is_read(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.path.write_text(f"{NOW.isoformat()}\n")
    floor = machine.boot()
    floor.check(NOW - timedelta(days=1))
    floor.record(NOW + timedelta(hours=1))
    with pytest.raises(ClockError):
        machine.boot().check(NOW - timedelta(days=1))
