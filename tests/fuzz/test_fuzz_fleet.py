"""Mangled documents of a fleet and answers about its devices: refused by name, or read as what they are; nothing else.

SOTTOVOCE_FUZZ_RUNS lengthens the loops and SOTTOVOCE_FUZZ_SEED repeats one; a failure names its run.
"""

import base64
import os
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import load, verify_peer_certificate
from sottovoce.fleet.fleet_keys import decode_changes, encode_changes
from sottovoce.fleet.invitation import Seeds, Token, read_bundle
from sottovoce.fleet.keys import node_id
from sottovoce.fleet.new_device import DeviceKeys, first_certificate
from sottovoce.fleet.signed_task import SignedTask, read_task
from sottovoce.fleet.verification import decode_certificate
from sottovoce.net.page_server import PageServer
from sottovoce.net.wire.revocation import RevocationList, decode_list, encode_list
from sottovoce.ops.page import Page, text_page
from sottovoce_bootstrap.sources import dns
from sottovoce_operator.fleet import Fleet, create_fleet
from sottovoce_operator.fleet.bundles import new_bundle, write_bundle
from sottovoce_operator.fleet.ca import enrol
from sottovoce_operator.fleet.request import read_request
from sottovoce_operator.fleet.rotation import rotate

from tests.support.mangling import mangle

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_RUNS", "30"))
SEED = int(os.environ.get("SOTTOVOCE_FUZZ_SEED", "1"))
REFUSED = (IdentityError, MessageRefused)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    directory = tmp_path_factory.mktemp("authority")
    create_fleet(directory, "street")
    return rotate(directory, 86_400)


def fuzz(name: str, documents: list[bytes], read: Callable[[bytes], object], runs: int = RUNS) -> int:
    """Read mangled documents, and return how many were refused."""
    refused = 0
    for run in range(runs):
        rng = random.Random(f"{SEED}/{name}/{run}")
        raw = mangle(rng, rng.choice(documents))
        if raw in documents:  # nothing was changed in the end
            refused += 1
            continue
        try:
            read(raw)
        except REFUSED:
            refused += 1
        except Exception as error:
            error.add_note(f"SOTTOVOCE_FUZZ_SEED={SEED}, {name}, run {run}: {raw.hex()}")
            raise
    return refused


def as_pem(kind: str) -> Callable[[bytes], bytes]:
    """Return a function that wraps mangled DER as PEM, so that the decoder gets past the base64."""

    def wrap(der: bytes) -> bytes:
        return f"-----BEGIN {kind}-----\n{base64.encodebytes(der).decode()}-----END {kind}-----\n".encode()

    return wrap


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")  # a negative serial number
def test_requests_and_certificates(fleet: Fleet, tmp_path: Path) -> None:
    identity = enrol(fleet, tmp_path / "device")
    keys = DeviceKeys.generate()
    request = keys.request(fleet="street")
    certificate = x509.load_pem_x509_certificate(fleet.issue(read_request(request, "the request")))
    pem, der = certificate.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.DER)
    csr = x509.load_pem_x509_csr(request).public_bytes(Encoding.DER)
    wrap_request, wrap_certificate = as_pem("CERTIFICATE REQUEST"), as_pem("CERTIFICATE")

    def verify(raw: bytes) -> None:
        fleet.authority.verify(decode_certificate(raw, "the file"), None, "the file")

    assert fuzz("request", [request, request + pem], lambda raw: read_request(raw, "the request")) > 0
    assert fuzz("request in DER", [csr], lambda raw: read_request(wrap_request(raw), "the request")) > RUNS / 2
    assert fuzz("certificate", [pem], verify) > 0
    assert fuzz("certificate in DER", [der], lambda raw: verify(wrap_certificate(raw))) > RUNS / 2
    assert fuzz("peer", [der], lambda raw: verify_peer_certificate(wrap_certificate(raw), identity)) > RUNS / 2
    assert fuzz("chain", [pem, pem + pem], first_certificate) > 0


def test_documents_that_the_fleet_signs(fleet: Fleet, tmp_path: Path) -> None:
    device = node_id(DeviceKeys.generate().device.public_key())
    revoked = RevocationList("street", 3, 1, (device,), keys=fleet.changes).sign(fleet.sign)
    task = SignedTask(fleet="street", epoch=2, issued=1, tables={"task": {"name": "digits"}}, keys=fleet.changes)
    signed = task.sign(fleet.sign).encoding
    bundle = tmp_path / "bundle"
    write_bundle(bundle, new_bundle(fleet, Seeds()))
    document = bundle.read_bytes()

    def read_file(raw: bytes) -> None:
        bundle.write_bytes(raw)
        read_bundle(bundle).keys  # noqa: B018 - decodes the keys

    assert fuzz("revocations", [encode_list(revoked)], lambda raw: decode_list(raw).verify(fleet.authority)) == RUNS
    assert fuzz("task", [signed], lambda raw: read_task(raw, "the task").verify(fleet.authority)) == RUNS
    assert fuzz("key changes", [encode_changes(fleet.changes)], lambda raw: decode_changes(raw, "the changes")) > 0
    assert fuzz("bundle", [document], read_file) > 0
    token = str(Token.create("192.0.2.7:7400", b"certificate")).encode()
    assert fuzz("token", [token], lambda raw: Token.decode(raw.decode(errors="replace"))) > 0


def test_an_identity_directory_with_a_mangled_file_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    directory = tmp_path / "device"
    enrol(fleet, directory)
    for file in sorted(path for path in directory.iterdir() if path.is_file()):
        whole = file.read_bytes()

        def read(raw: bytes, file: Path = file) -> None:
            file.write_bytes(raw)
            load(directory)

        assert fuzz(file.name, [whole], read, runs=max(4, RUNS // 10)) > 0
        file.write_bytes(whole)


async def test_requests_to_a_page_are_answered() -> None:
    async def page() -> Page:
        return text_page(200, "page")

    server = PageServer({"/metrics": page})
    for run in range(RUNS):
        rng = random.Random(f"{SEED}/http/{run}")
        raw = mangle(rng, b"GET /metrics HTTP/1.1\r\nHost: 192.0.2.7\r\nConnection: close\r\n\r\n")
        try:
            answer, _ = await server.page(raw)
            assert answer.to_bytes(head_only=False).startswith(b"HTTP/1.0 ")
        except Exception as error:
            error.add_note(f"SOTTOVOCE_FUZZ_SEED={SEED}, run {run}: {raw!r}")
            raise


def test_names_of_devices_in_dns(fleet: Fleet) -> None:
    target = f"{node_id(DeviceKeys.generate().device.public_key())}.example.org"
    for run in range(RUNS):
        rng = random.Random(f"{SEED}/dns/{run}")
        name = mangle(rng, target.encode()).decode("latin-1")
        contact = dns._contact(name, rng.choice((0, 1, 7400, 65535)))
        assert contact is None or set(contact.node_id) <= set(string.ascii_lowercase + "234567")
