"""Files that `fleet broker` writes, and the files shipped in deploy/."""

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sottovoce.errors import IdentityError, UsageError
from sottovoce.fleet import verify_peer_certificate
from sottovoce_operator.fleet.mosquitto import write_broker

from tests.support.devices import new_device
from tests.support.fleets import new_fleet

DEPLOY = Path(__file__).parents[3] / "deploy" / "mosquitto"


def test_the_fleet_certifies_the_broker_which_is_not_a_device(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    configuration = write_broker(fleet, tmp_path / "broker", ["broker.example.org", "10.0.0.7"], port=9000)
    directory = configuration.parent
    pem = (directory / "broker.pem").read_bytes()
    certificate = x509.load_pem_x509_certificate(pem)
    certificate.verify_directly_issued_by(fleet.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker.example.org"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    key = load_pem_private_key((directory / "broker.key").read_bytes(), None)
    assert key.public_key() == certificate.public_key()
    device = new_device(fleet, tmp_path / "device").identity
    with pytest.raises(IdentityError):
        verify_peer_certificate(pem, device)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in directory.iterdir())


def test_the_files_refer_to_their_future_location(tmp_path: Path) -> None:
    fleet, home = new_fleet(tmp_path / "fleet"), Path("/srv/broker")
    text = write_broker(
        fleet, tmp_path / "broker", ["b"], port=9000, listen="127.0.0.1", user="me", home=home
    ).read_text()
    assert "listener 9000 127.0.0.1\n" in text
    assert "keyfile /srv/broker/broker.key\n" in text
    assert "\nuser me\n" in text
    assert str(tmp_path) not in text


def test_the_shipped_files_equal_the_written_ones(tmp_path: Path) -> None:
    home = Path("/etc/mosquitto/sottovoce")
    written = write_broker(new_fleet(tmp_path / "fleet"), tmp_path / "broker", ["b"], home=home)
    assert written.read_text() == (DEPLOY / "mosquitto.conf").read_text()
    assert (written.parent / "acl").read_text() == (DEPLOY / "acl").read_text()


@pytest.mark.parametrize("hosts", [[], ["a b\u00e9"]])
def test_a_broker_requires_a_name(tmp_path: Path, hosts: list[str]) -> None:
    with pytest.raises(UsageError):
        write_broker(new_fleet(tmp_path / "fleet"), tmp_path / "broker", hosts)
    assert not (tmp_path / "broker").exists()
