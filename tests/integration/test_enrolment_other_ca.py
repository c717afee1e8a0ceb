"""Devices with certificates from a CA outside the fleet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.fleet import load
from sottovoce.fleet.binding import BINDING_OID
from sottovoce.fleet.certificates import common_name
from sottovoce.fleet.identity import IDENTITY

from tests.support.attacker import Attacker
from tests.support.command import run_here
from tests.support.devices import Device, free_port
from tests.support.enrolment import QUICK, wait_until_learning
from tests.support.fleets import new_fleet
from tests.support.processes import running

pytestmark = pytest.mark.process


class OtherCa:
    """A root CA, and an intermediate CA that signs requests, like step-ca with a template."""

    def __init__(self) -> None:
        self._root, self._key = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
        self.root = self._certify("root", self._root, "root", self._root)
        self.issuer = self._certify("issuing", self._key, "root", self._root)

    def _certify(self, name: str, key: Any, by: str, signer: Any) -> x509.Certificate:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        return (
            self._builder(common_name(name), key.public_key(), common_name(by))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(signer, SHA256())
        )

    @staticmethod
    def _builder(subject: x509.Name, key: Any, issuer: x509.Name) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            issuer, subject, key, x509.random_serial_number(), now - timedelta(days=1), now + timedelta(days=30)
        )

    def issue(self, request: bytes, *, without: x509.ObjectIdentifier | None = None) -> bytes:
        """Return the certificate chain for a request, as PEM."""
        csr = x509.load_pem_x509_csr(request)
        builder = self._builder(csr.subject, csr.public_key(), self.issuer.subject)
        for extension in csr.extensions:
            if extension.oid != without:
                builder = builder.add_extension(extension.value, critical=False)
        leaf = builder.sign(self._key, SHA256())
        return leaf.public_bytes(Encoding.PEM) + self.issuer.public_bytes(Encoding.PEM)


def external(ca: OtherCa, state: Path, name: str = "plant", **changes: Any) -> Any:
    """Enrol a device with another CA's certificate, and return the outcome."""
    request, chain, issuer = (state.with_suffix(suffix) for suffix in (".csr", ".crt", ".ca"))
    completed = run_here("fleet", "join", "--external", "--name", name, "--state", state, "--request", request)
    assert (completed.code, completed.err) == (0, ""), completed
    chain.write_bytes(ca.issue(request.read_bytes(), **changes))
    issuer.write_bytes(ca.issuer.public_bytes(Encoding.PEM))
    return run_here("fleet", "join", "--external", "--state", state, "--certificate", chain, "--issuer", issuer)


def test_devices_with_another_ca_learn_together(tmp_path: Path) -> None:
    ca, other = OtherCa(), OtherCa()
    settings = {**QUICK, "identity": {"mode": "external", "look_every": 0.05}}
    devices = []
    for name, issuer, fleet in (("a", ca, "plant"), ("b", ca, "plant"), ("c", ca, "yard"), ("d", other, "plant")):
        completed = external(issuer, tmp_path / name, fleet)
        assert (completed.code, completed.err) == (0, ""), completed
        random = np.random.default_rng(0)
        device = Device(tmp_path / name, load(tmp_path / name / IDENTITY), free_port())
        devices.append(device.hold(random.uniform(0, 1, (60, 4)), random.integers(0, 3, 60)))
    one, two, another_fleet, another_ca = devices
    one.configure([two.entry()], **settings)
    two.configure([one.entry()], **settings)
    wait_until_learning(one, two)
    with running(one) as (agent,):
        for stranger, words in ((another_fleet, "identifies a device or fleet that does not match"), (another_ca, "")):
            with Attacker(one, stranger.identity) as attacker:
                outcome = attacker.deliver(attacker.envelope(sequence=1))
                assert outcome.duplicate is None
                assert words in outcome.details
        assert agent.status()["traffic"]["received"] == 0
    request = tmp_path / "again.csr"
    assert run_here("fleet", "renew", "--state", one.state, "--request", request).code == 0
    (tmp_path / "again.crt").write_bytes(ca.issue(request.read_bytes()))
    completed = run_here("fleet", "renew", "--state", one.state, "--install", tmp_path / "again.crt")
    assert (completed.code, completed.err) == (0, ""), completed
    assert load(one.state / IDENTITY).tls_cert_pem != one.identity.tls_cert_pem
    revoked = tmp_path / "list"
    new_fleet(tmp_path / "authority", "plant")
    assert run_here("fleet", "revoke", "--fleet", tmp_path / "authority", two.id, "--out", revoked).code == 0
    completed = run_here("fleet", "revoke", "--state", one.state, "--install", revoked)
    assert (completed.code, "does not use revocation lists; have the CA refuse to renew" in completed.err) == (
        6,
        True,
    )


def test_an_external_certificate_without_the_binding_is_refused_and_can_be_requested_again(tmp_path: Path) -> None:
    completed = external(OtherCa(), tmp_path / "a", without=BINDING_OID)
    assert (completed.code, "does not bind its TLS key to a device key" in completed.err) == (6, True)
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "a.requested").is_dir()
    leafless = run_here(
        "fleet", "join", "--external", "--state", tmp_path / "b", "--certificate", __file__, "--issuer", __file__
    )
    assert (leafless.code, "the directory has no keys" in leafless.err) == (6, True)
