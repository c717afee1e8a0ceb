from pathlib import Path

import msgspec
import pytest
from sottovoce.errors import IdentityError
from sottovoce.fleet.invitation import (
    MAX_SEEDS,
    SEEDS,
    Broker,
    Bundle,
    Seed,
    Seeds,
    Token,
    read_bundle,
    read_seeds,
    void_bundle,
    write_seeds,
)
from sottovoce.fleet.new_device import DeviceKeys
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.bundles import write_bundle
from sottovoce_operator.fleet.request import read_request

SOME = Seeds((Seed("a" * 32, ("10.0.0.7:7400", "mqtt:main")),), Broker("mqtts://b:8883", "main"))


@pytest.fixture
def bundle(fleet: Fleet) -> Bundle:
    keys = DeviceKeys.generate()
    device, tls = (pem.decode() for pem in keys.to_pem())
    certificate = fleet.issue(read_request(keys.request(), "r")).decode()
    return Bundle(fleet.name, keys.node_id, device, tls, certificate, fleet.authority.roots.decode(), SOME)


@pytest.mark.parametrize("address", ["192.168.1.5:7443", "gateway.local:1", "[fd00::1]:65535"])
def test_a_token_survives_typing_variations(address: str) -> None:
    token = Token.create(address, b"certificate")
    text = str(token)
    assert len(text) <= len(address) + 64
    for typed in (text, f"  {text}\n", text.upper(), f"{text[:30]} {text[30:]}"):
        decoded = Token.decode(typed)
        assert (decoded.address.lower(), decoded.secret, decoded.fingerprint) == (
            address,
            token.secret,
            token.fingerprint,
        )
    assert token.admits(token.secret.hex())
    assert not token.admits(bytes(16).hex())
    assert not token.admits("no hexadecimal")
    assert (token.is_enroller(b"certificate"), token.is_enroller(b"another")) == (True, False)
    assert token.secret.hex() not in repr(token)
    assert Token.create(address, b"certificate").secret != token.secret


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t + "a", lambda t: t[1:], lambda t: t[:-1] + "1", lambda t: ""]
)
def test_incomplete_tokens_are_refused(change: object) -> None:
    text = change(str(Token.create("a:1", b"c")))  # type: ignore[operator]
    with pytest.raises(IdentityError, match=r"token.*incomplete"):
        Token.decode(text)


def test_a_bundle_is_read_as_written_until_it_is_used(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "b"
    write_bundle(path, bundle)
    repeated = read_bundle(path)
    assert repeated == bundle
    assert repeated.keys.node_id == bundle.id
    assert "PRIVATE" not in repr(repeated)
    with pytest.raises(IdentityError, match="overwritten"):
        write_bundle(path, bundle)
    void_bundle(path, bundle)
    with pytest.raises(IdentityError, match=f"has already been used by device {bundle.id}"):
        read_bundle(path)
    assert bundle.tls_key not in path.read_text()


def test_a_corrupt_bundle_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "b"
    full = msgspec.json.encode(bundle)
    for content in (b"", b"{}", full[:-1], full.replace(b"bundle/1", b"bundle/2"), b"[" * 10, b" " * 2**17):
        path.write_bytes(content)
        with pytest.raises(IdentityError, match=r"incomplete.*bundle"):
            read_bundle(path)
    with pytest.raises(IdentityError, match="is missing"):
        read_bundle(tmp_path / "none")


def test_a_bundle_that_cannot_be_marked_states_the_remedy(bundle: Bundle, tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", bundle)
    (tmp_path / ".b.new").mkdir()
    with pytest.raises(IdentityError, match=r"writable.*directory"):
        void_bundle(tmp_path / "b", bundle)


def test_seeds_are_stored_in_the_state_directory(tmp_path: Path) -> None:
    assert read_seeds(tmp_path) == Seeds()
    write_seeds(tmp_path, SOME)
    assert read_seeds(tmp_path) == SOME
    (tmp_path / SEEDS).write_bytes(b"[]")
    with pytest.raises(IdentityError, match="corrupt"):
        read_seeds(tmp_path)
    write_seeds(tmp_path, Seeds(tuple(Seed("a" * 32, ("a:1",)) for _ in range(MAX_SEEDS + 1))))
    with pytest.raises(IdentityError, match=r"limit.*\b64\b"):
        read_seeds(tmp_path)
