import hashlib
import stat
from base64 import b32encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sottovoce.errors import IdentityError
from sottovoce.fleet import Identity, Validity, load, node_id, peer_dns_name
from sottovoce_operator.fleet import Fleet, create_fleet, enrol, open_fleet


def test_node_id_is_the_documented_function_of_the_public_key() -> None:
    raw = bytes(range(32))
    expected = b32encode(hashlib.sha256(raw).digest())[:32].decode().lower()
    assert node_id(raw) == node_id(Ed25519PublicKey.from_public_bytes(raw)) == expected
    with pytest.raises(IdentityError, match="32 bytes"):
        node_id(raw[1:])


@pytest.mark.parametrize("name", ["a", "7", "a-b", "fleet-of-2026", "a" * 40, "a" + "-" * 38 + "b"])
def test_valid_fleet_names(name: str, tmp_path: Path) -> None:
    assert create_fleet(tmp_path / "f", name).name == open_fleet(tmp_path / "f").name == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a_b", "a" * 41, "a\n", "é", "a/b"])
def test_invalid_fleet_names_write_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="fleet name"):
        create_fleet(tmp_path / "f", name)
    assert not (tmp_path / "f").exists()


def test_an_enrolled_device_loads_its_own_identity(device: Identity, device_directory: Path) -> None:
    repeated = load(device_directory)
    assert (repeated.node_id, repeated.fleet, repeated.public_key) == (device.node_id, "lorawan-7", device.public_key)
    assert repeated.dns_name == peer_dns_name(device.node_id, "lorawan-7") == f"{device.node_id}.lorawan-7.internal"
    Ed25519PublicKey.from_public_bytes(device.public_key).verify(repeated.sign(b"a message"), b"a message")


def test_private_files_are_only_for_their_owner(device: Identity, device_directory: Path, tmp_path: Path) -> None:
    create_fleet(tmp_path / "f", "f")
    assert stat.S_IMODE(device_directory.stat().st_mode) == stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o700
    for key in (device_directory / "device.key", device_directory / "tls.key", tmp_path / "f" / "ca.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_no_secret_is_printed(device: Identity, fleet: Fleet) -> None:
    for text in (repr(device), repr(fleet)):
        assert "PRIVATE" not in text
        assert "Key" not in text


def test_the_certificate_names_the_device_for_tls_and_spiffe(device: Identity) -> None:
    certificate = x509.load_pem_x509_certificate(device.tls_cert_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [device.dns_name]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"spiffe://lorawan-7/device/{device.node_id}"]
    key = certificate.public_key()
    assert isinstance(key, EllipticCurvePublicKey)
    assert isinstance(key.curve, SECP256R1)
    assert certificate.not_valid_after_utc == device.not_after
    remaining = device.not_after - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < remaining <= timedelta(days=90)


def test_an_identity_is_valid_no_longer_than_its_fleet(tmp_path: Path) -> None:
    fleet = create_fleet(tmp_path / "f", "f", validity=Validity.from_now(3))
    assert enrol(fleet, tmp_path / "d").not_after == fleet.certificate.not_valid_after_utc


def test_every_device_has_a_different_id(fleet: Fleet, tmp_path: Path) -> None:
    assert len({enrol(fleet, tmp_path / str(number)).node_id for number in range(5)}) == 5


@pytest.mark.parametrize("name", ["device.key", "tls.key", "tls.pem", "ca.pem"])
def test_enrolment_never_overwrites(name: str, fleet: Fleet, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(IdentityError, match=f"{name} already exists"):
        enrol(fleet, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"precious"


def test_a_fleet_is_never_overwritten(tmp_path: Path) -> None:
    first = create_fleet(tmp_path / "f", "f")
    with pytest.raises(IdentityError, match="exists"):
        create_fleet(tmp_path / "f", "f")
    assert open_fleet(tmp_path / "f").certificate == first.certificate


def test_enrolment_after_a_crash_between_draft_and_name_succeeds(fleet: Fleet, device_directory: Path) -> None:
    device_directory.mkdir(mode=0o700)
    (device_directory / ".device.key.new").write_bytes(b"half a k")
    enrol(fleet, device_directory)
    assert {path.name for path in device_directory.iterdir()} == {"device.key", "tls.key", "tls.pem", "ca.pem"}


def test_a_directory_open_to_others_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(IdentityError, match="chmod 700"):
        enrol(fleet, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_created_is_explained(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(IdentityError, match="created"):
        enrol(fleet, tmp_path / "file")


def test_a_fleet_opens_only_if_complete(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    create_fleet(one, "one")
    create_fleet(two, "two")
    (one / "ca.pem").write_bytes((two / "ca.pem").read_bytes())
    with pytest.raises(IdentityError, match="belong"):
        open_fleet(one)
    (two / "ca.key").chmod(0o640)
    with pytest.raises(IdentityError, match="chmod 600"):
        open_fleet(two)
    (two / "ca.key").unlink()
    with pytest.raises(IdentityError, match="missing"):
        open_fleet(two)


def test_a_file_that_cannot_be_written_is_explained(fleet: Fleet, device_directory: Path) -> None:
    (device_directory / ".tls.key.new").mkdir(parents=True)
    device_directory.chmod(0o700)
    with pytest.raises(IdentityError, match=r"tls\.key"):
        enrol(fleet, device_directory)
    assert not (device_directory / "tls.key").exists()
