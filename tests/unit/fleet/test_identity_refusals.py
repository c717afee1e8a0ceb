from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from sottovoce.errors import IdentityError
from sottovoce.fleet import Identity, Validity, load, verify_peer_certificate
from sottovoce.fleet.binding import BINDING_OID, make_binding
from sottovoce.fleet.certificates import common_name, device_names
from sottovoce.fleet.keys import encode_private_key
from sottovoce_operator.fleet import Fleet, enrol

FILES = ("device.key", "tls.key", "tls.pem", "ca.pem")


def _assert_refused(directory: Path, file: str, explanation: str) -> None:
    with pytest.raises(IdentityError, match=explanation) as exc_info:
        load(directory)
    assert file in str(exc_info.value)
    assert "\n" not in str(exc_info.value)


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_required(name: str, device: Identity, device_directory: Path) -> None:
    (device_directory / name).unlink()
    _assert_refused(device_directory, name, "missing")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_every_file_must_be_readable(name: str, content: bytes, device: Identity, device_directory: Path) -> None:
    (device_directory / name).write_bytes(content)
    _assert_refused(device_directory, name, r"\bnot\b")


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused(name: str, device: Identity, device_directory: Path) -> None:
    content = (device_directory / name).read_bytes()
    (device_directory / name).write_bytes(content[: len(content) // 3])
    _assert_refused(device_directory, name, r"\bnot\b")


@pytest.mark.parametrize("name", FILES)
def test_a_directory_in_place_of_a_file_is_refused(name: str, device: Identity, device_directory: Path) -> None:
    (device_directory / name).unlink()
    (device_directory / name).mkdir()
    _assert_refused(device_directory, name, "read")


@pytest.mark.parametrize("name", ["device.key", "tls.key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o601])
def test_a_key_open_to_others_is_refused(name: str, mode: int, device: Identity, device_directory: Path) -> None:
    (device_directory / name).chmod(mode)
    _assert_refused(device_directory, name, "chmod 600")


@pytest.mark.parametrize("name", ["device.key", "tls.key"])
def test_an_encrypted_key_is_refused(name: str, device: Identity, device_directory: Path) -> None:
    key = serialization.load_pem_private_key((device_directory / name).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    (device_directory / name).write_bytes(pem)
    _assert_refused(device_directory, name, "unencrypted")


def test_swapped_keys_are_refused(device: Identity, device_directory: Path) -> None:
    device_key, tls_key = device_directory / "device.key", device_directory / "tls.key"
    first, second = device_key.read_bytes(), tls_key.read_bytes()
    device_key.write_bytes(second)
    _assert_refused(device_directory, "device.key", "Ed25519")
    device_key.write_bytes(first)
    tls_key.write_bytes(first)
    _assert_refused(device_directory, "tls.key", "ECDSA P-256")


@pytest.mark.parametrize("name", ["device.key", "tls.key", "tls.pem"])
def test_another_device_s_file_is_refused(
    name: str, fleet: Fleet, device: Identity, device_directory: Path, tmp_path: Path
) -> None:
    enrol(fleet, tmp_path / "another")
    (device_directory / name).write_bytes((tmp_path / "another" / name).read_bytes())
    _assert_refused(device_directory, name, "both")


def test_a_namesake_fleet_s_certificate_is_refused(
    namesake: Fleet, device: Identity, device_directory: Path, tmp_path: Path
) -> None:
    stranger = enrol(namesake, tmp_path / "stranger")
    (device_directory / "ca.pem").write_bytes(stranger.ca_pem)
    _assert_refused(device_directory, "tls.pem", "fleet 'lorawan-7'")
    with pytest.raises(IdentityError, match=r"issued.*by"):
        verify_peer_certificate(stranger.tls_cert_pem, device)


def test_a_device_certificate_is_not_a_fleet_certificate(device: Identity, device_directory: Path) -> None:
    (device_directory / "ca.pem").write_bytes(device.tls_cert_pem)
    _assert_refused(device_directory, "ca.pem", "fleet certificate")


def test_a_self_signed_certificate_without_authority_is_not_a_fleet_certificate(
    device: Identity, device_directory: Path
) -> None:
    key, name, validity = generate_private_key(SECP256R1()), common_name("lorawan-7"), Validity.from_now(1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, validity.not_before, validity.not_after)
    plain = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True).sign(key, SHA256())
    (device_directory / "ca.pem").write_bytes(plain.public_bytes(serialization.Encoding.PEM))
    _assert_refused(device_directory, "ca.pem", r"device certificate.*fleet certificate")


def test_two_certificates_in_one_file_are_refused(device: Identity, device_directory: Path) -> None:
    (device_directory / "tls.pem").write_bytes(device.tls_cert_pem + device.ca_pem)
    _assert_refused(device_directory, "tls.pem", r"single.*PEM")


def test_certificates_are_valid_from_their_first_second_to_their_last(device: Identity, device_directory: Path) -> None:
    begin = x509.load_pem_x509_certificate(device.tls_cert_pem).not_valid_before_utc
    tick = timedelta(microseconds=1)
    assert load(device_directory, begin).node_id == load(device_directory, device.not_after).node_id == device.node_id
    with pytest.raises(IdentityError, match=r"tls\.pem.*clock"):
        load(device_directory, begin - tick)
    with pytest.raises(IdentityError, match=r"tls\.pem.*sottovoce fleet renew"):
        load(device_directory, device.not_after + tick)


def test_an_expired_fleet_invalidates_its_devices(fleet: Fleet, device_directory: Path) -> None:
    end = fleet.certificate.not_valid_after_utc
    enrol(fleet, device_directory, validity=Validity(datetime.now(UTC), end + timedelta(days=9)))
    with pytest.raises(IdentityError, match=r"'lorawan-7'.*expired"):
        load(device_directory, end + timedelta(days=1))


def test_peers_are_distinguished_by_their_certificates(
    device: Identity, fleet: Fleet, expired: Identity, early: Identity, tmp_path: Path
) -> None:
    peer = enrol(fleet, tmp_path / "peer")
    assert verify_peer_certificate(peer.tls_cert_pem, device).node_id == peer.node_id
    for other, explanation in (
        (expired, "the peer's certificate expired"),
        (early, "the peer's certificate is not valid before"),
    ):
        with pytest.raises(IdentityError, match=explanation):
            verify_peer_certificate(other.tls_cert_pem, device)
    for nonsense in (b"", peer.tls_cert_pem[:99], device.ca_pem):
        with pytest.raises(IdentityError, match=r"peer.*certificate"):
            verify_peer_certificate(nonsense, device)


@pytest.fixture
def forge(fleet: Fleet) -> Callable[..., bytes]:
    """Make certificates that the fleet's key signed although they contain an error."""

    def build(binding: bytes | None, name: str, names: x509.SubjectAlternativeName, tls_public: object) -> bytes:
        validity = Validity.from_now(1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(common_name(name))
            .issuer_name(fleet.certificate.subject)
            .public_key(tls_public)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(validity.not_before)
            .not_valid_after(validity.not_after)
            .add_extension(names, critical=False)
        )
        if binding is not None:
            builder = builder.add_extension(x509.UnrecognizedExtension(BINDING_OID, binding), critical=False)
        return builder.sign(fleet.key, SHA256()).public_bytes(serialization.Encoding.PEM)

    return build


def test_an_invalid_binding_is_refused(forge: Callable[..., bytes], device: Identity, device_directory: Path) -> None:
    tls_key = generate_private_key(SECP256R1())
    key = serialization.load_pem_private_key((device_directory / "device.key").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    good = make_binding(key, tls_key.public_key())
    names = device_names(device.node_id, device.fleet)

    def attempt(binding: bytes | None, name: str = device.node_id, names: object = names) -> str:
        return verify_peer_certificate(forge(binding, name, names, tls_key.public_key()), device).node_id

    assert attempt(good) == device.node_id
    altered = [good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :] for index in range(len(good))]
    of_another_tls_key = make_binding(key, generate_private_key(SECP256R1()).public_key())
    for binding in (None, b"", good[:-1], good + b"\0", of_another_tls_key, *altered):
        with pytest.raises(IdentityError, match=r"TLS key.*device key"):
            attempt(binding)

    another = make_binding(Ed25519PrivateKey.generate(), tls_key.public_key())
    with pytest.raises(IdentityError, match=r"identifies.*match"):
        attempt(another)
    with pytest.raises(IdentityError, match=r"identifies.*match"):
        attempt(good, name="a" * 32)
    for wrong in (device_names("a" * 32, device.fleet), device_names(device.node_id, "another")):
        with pytest.raises(IdentityError, match=r"identifies.*match"):
            attempt(good, names=wrong)

    for binding, explanation in ((None, "does not bind"), (good, None)):
        (device_directory / "tls.key").write_bytes(encode_private_key(tls_key))
        (device_directory / "tls.pem").write_bytes(forge(binding, device.node_id, names, tls_key.public_key()))
        if explanation:
            _assert_refused(device_directory, "tls.pem", explanation)
        else:
            assert load(device_directory).node_id == device.node_id


def test_an_ed25519_tls_certificate_is_refused(forge: Callable[..., bytes], device: Identity) -> None:
    names = device_names(device.node_id, device.fleet)
    certificate = forge(b"", device.node_id, names, Ed25519PrivateKey.generate().public_key())
    with pytest.raises(IdentityError, match="bind"):
        verify_peer_certificate(certificate, device)
