from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.errors import IdentityError
from sottovoce.fleet import Identity, verify_credential
from sottovoce_operator.fleet import Fleet, enrol


def test_a_credential_states_its_owner_and_validity(device: Identity) -> None:
    subject = verify_credential(device.certificate_der, device.authority, datetime.now(UTC))
    assert (subject.node_id, subject.fleet, subject.public_key) == (device.node_id, device.fleet, device.public_key)
    assert subject.not_before < datetime.now(UTC) < subject.not_after == device.not_after
    pem = x509.load_der_x509_certificate(device.certificate_der).public_bytes(Encoding.PEM)
    assert pem == device.tls_cert_pem


def test_invalid_credentials_are_refused(
    device: Identity, expired: Identity, namesake: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outsider = enrol(namesake, tmp_path_factory.mktemp("outsider") / "device")
    now = datetime.now(UTC)
    for credential, explanation in (
        (expired.certificate_der, "expired on"),
        (outsider.certificate_der, "was not issued by fleet 'lorawan-7'"),
        (device.certificate_der[:-1], "is not a certificate"),
        (b"", "is not a certificate"),
    ):
        with pytest.raises(IdentityError, match=explanation):
            verify_credential(credential, device.authority, now)
    assert verify_credential(expired.certificate_der, device.authority).node_id == expired.node_id


@pytest.mark.filterwarnings("ignore:Parsed")  # the library announces what a later version will refuse
def test_every_altered_credential_is_refused_with_a_reason(device: Identity) -> None:
    """This includes credentials whose version, key, algorithm or extensions are unknown to the library."""
    full = device.certificate_der
    signature = x509.load_der_x509_certificate(full).signature
    unused_bits = len(full) - len(signature) - 1  # no bit of the signature depends on this octet
    for at in {*range(len(full))} - {unused_bits}:
        for bit in (1, 128):
            altered = full[:at] + bytes([full[at] ^ bit]) + full[at + 1 :]
            with pytest.raises(IdentityError):
                verify_credential(altered, device.authority)
