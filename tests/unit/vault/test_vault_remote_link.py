"""Link between an agent and its separate vault: permitted callers, invalid queries, and absent ends."""

import asyncio
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import ConfigError, InternalError, LedgerError, PluginError, PrivacyError
from sottovoce.node.waits import Waits
from sottovoce.plugins import LEARNER, MECHANISM, Plugin, attribution
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.rpc import protocol, server
from sottovoce.privacy.rpc.protocol import Failed
from sottovoce.privacy.rpc.remote import RemoteVault
from sottovoce.privacy.rpc.server import listening_socket
from sottovoce.privacy.vault import Budget, Vault
from sottovoce.privacy.vault.programs.gradient import GradientSum

from tests.support.vaults import make_served, serve_vault
from tests.support.waiting import until

OWNER, OTHER = "meter-17", "meter-18"
SIZE = 12
MakeVault = Callable[..., Vault]


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Return the socket's address."""
    return tmp_path / "vault.sock"


def met(
    at: Path, budget: Budget, *, owner: str = OWNER, patience: float = 0.2, waits: Waits | None = None
) -> RemoteVault:
    return RemoteVault(at, owner=owner, budget=budget, patience=patience, waits=waits or Waits())


def question(slot: int) -> Query:
    return Query("clipd2p", "gradient", slot, np.zeros(SIZE))


@pytest.mark.parametrize("kind", [MECHANISM, LEARNER])
@pytest.mark.parametrize("error", [ValueError("record 3.14"), PrivacyError("record 3.14")])
def test_a_plug_in_that_fails_is_named_to_the_agent_without_its_text(
    make_vault: MakeVault, at: Path, budget: Budget, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception
) -> None:
    vault = make_vault()
    monkeypatch.setattr(attribution, "_loaded", [Plugin(kind, "stair", f"{__name__}:STAIR", "elsewhere 1")])

    def failing(query: Query) -> None:
        raise error

    with serve_vault(make_served(vault, OWNER, budget), at):
        remote = met(at, budget)
        monkeypatch.setattr(vault, "answer", failing)
        with pytest.raises(PluginError) as caught:
            remote.answer(question(0))
        remote.close()
    for word in ("stair of package elsewhere 1", type(error).__name__, f"failing() at {__file__} line"):
        assert word in str(caught.value)
    assert "3.14" not in str(caught.value)


def test_another_device_s_vault_is_rejected(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    with serve_vault(make_served(make_vault(), OWNER, budget), at):
        with pytest.raises(LedgerError, match=f"belongs to device {OWNER}, not to {OTHER}"):
            met(at, budget, owner=OTHER)
        with pytest.raises(LedgerError, match=r"ε = 2.*ε = 9"):
            met(at, Budget(9.0, 1e-5, "record", "add-remove"))


def test_the_vault_reports_the_declared_ranges(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    with serve_vault(make_served(make_vault(), OWNER, budget, ranges="[[0.0],[9.0]]"), at):
        remote = met(at, budget)
        assert remote.ranges == "[[0.0],[9.0]]"
        remote.close()


def test_only_the_agent_s_user_is_answered(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    with serve_vault(make_served(make_vault(), OWNER, budget, user=os.getuid() + 1), at):
        with pytest.raises(
            PrivacyError, match=f"user {os.getuid()} is not authorised to query this vault; see vault.agent_user"
        ):
            met(at, budget)
        assert send_raw(at, b"") == Failed(
            "user",
            f"user {os.getuid()} is not authorised to query this vault; see vault.agent_user in its configuration",
        )


def test_the_socket_is_only_for_its_owner_unless_shared(at: Path) -> None:
    with listening_socket(at, shared=False):
        assert at.stat().st_mode & 0o777 == 0o600
    assert not at.exists()
    with listening_socket(at, shared=True):
        assert at.stat().st_mode & 0o777 == 0o666


def test_only_a_leftover_socket_is_replaced(at: Path) -> None:
    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(at))
    with listening_socket(at, shared=False):
        pass
    at.write_text("letters")
    with (
        pytest.raises(ConfigError, match="socket"),
        listening_socket(at, shared=False),
    ):
        pass
    assert at.read_text() == "letters"
    for nowhere in (at.parent / "no" / "vault.sock", at.parent / ("long" * 40)):
        with pytest.raises(ConfigError, match="listen"), listening_socket(nowhere, shared=False):
            pass


def test_without_a_vault_the_wait_has_a_reason_and_an_end(at: Path, budget: Budget) -> None:
    observed: list[str] = []

    class Watched(Waits):
        def begin(
            self, name: str, reason: str, seconds: float, since: float | None = None, *, repeats: bool = False
        ) -> None:
            super().begin(name, reason, seconds, since, repeats=repeats)
            observed.append(f"{name}: {reason}, {seconds:g}")

    waits = Watched()
    with pytest.raises(PrivacyError, match=r"0\.2 s.*sottovoce vault run"):
        met(at, budget, waits=waits)
    assert observed == [f"vault-process: the vault's process to answer at {at}, 0.2"]
    assert waits.current == {}


def test_a_returning_vault_is_queried_again(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    vault, waits = make_vault(), Waits()
    with serve_vault(make_served(vault, OWNER, budget), at):
        remote = met(at, budget, patience=30.0, waits=waits)
        first = remote.answer(question(0))
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(remote.answer(question(0))))
    asking.start()
    until(lambda: "vault-process" in waits.current, "it waits for the vault")
    with serve_vault(make_served(vault, OWNER, budget), at):
        asking.join()
    assert not isinstance(first, Refused)
    assert answers[0].value.tobytes() == first.value.tobytes()
    assert waits.current == {}
    remote.close()


def test_a_returning_vault_with_other_settings_is_rejected(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    """Its releases would have a different size from the one that the learner assumes."""
    vault = make_vault()
    with serve_vault(make_served(vault, OWNER, budget), at):
        remote = met(at, budget)
    vault.close()
    with serve_vault(make_served(make_vault(clip=0.5), OWNER, budget), at), closing(remote):
        for ask in (lambda: remote.answer(question(0)), remote.spending, remote.tip, lambda: remote.mark(0, 0)):
            with pytest.raises(PrivacyError, match="settings"):
                ask()


async def test_a_stopping_agent_does_not_wait_for_the_vault(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    with serve_vault(make_served(make_vault(), OWNER, budget), at):
        remote = met(at, budget, patience=300.0)
    pending = asyncio.create_task(remote.ask(question(0)))
    spending = asyncio.get_running_loop().run_in_executor(None, remote.spending)
    await asyncio.sleep(0.2)
    began = time.monotonic()
    remote.close()
    for waiting in (pending, spending):
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert time.monotonic() - began < 5


async def test_a_stopping_agent_does_not_wait_for_a_busy_vault(at: Path, budget: Budget, make_vault: MakeVault) -> None:
    """A debugger can stop a vault in this way: there is a connection, but no answer."""
    with serve_vault(make_served(make_vault(), OWNER, budget), at):
        remote = met(at, budget)
    with listening_socket(at, shared=False) as silent:
        pending = asyncio.create_task(remote.ask(question(0)))
        connection, _ = await asyncio.get_running_loop().run_in_executor(None, silent.accept)
        remote.close()
        with pytest.raises(asyncio.CancelledError):
            await pending
        connection.close()


def test_the_ledger_s_own_message_reaches_the_agent(make_vault: MakeVault, at: Path, budget: Budget) -> None:
    vault = make_vault()
    with serve_vault(make_served(vault, OWNER, budget), at), closing(met(at, budget)) as remote:
        vault._context.ledger._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(LedgerError, match=r"nothing.*released"):
            remote.answer(question(0))
        vault._context.ledger._connection.execute("PRAGMA query_only = OFF")
        assert not isinstance(remote.answer(question(0)), Refused)


def test_a_defect_s_message_is_not_sent(
    make_vault: MakeVault, at: Path, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might describe a record. The vault continues."""

    def fails(self: GradientSum, query: Query, records: Records) -> Batches:
        raise ValueError("the third record is 17.25")

    monkeypatch.setattr(GradientSum, "compute", fails)
    vault = make_vault()
    with serve_vault(make_served(vault, OWNER, budget), at), closing(met(at, budget)) as remote:
        with pytest.raises(InternalError, match="bug") as failure:
            remote.answer(question(0))
        assert "17.25" not in str(failure.value)
        assert remote.spending().charges == 1


def test_a_server_that_is_not_a_vault_is_recognised(at: Path, budget: Budget) -> None:
    def answer(raw: bytes) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(raw)

    other = protocol.encode(protocol.Marked(None))
    with listening_socket(at, shared=False) as listener:
        for raw, error in (
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", PrivacyError),
            (framed(b"\xc1"), PrivacyError),
            (framed(other), InternalError),
        ):
            thread = threading.Thread(target=answer, args=(raw,))
            thread.start()
            with pytest.raises(error):
                met(at, budget)
            thread.join()


def framed(raw: bytes, mark: bytes = b"svv", version: int = protocol.VERSION, length: int | None = None) -> bytes:
    return struct.pack(">3sBI", mark, version, len(raw) if length is None else length) + raw


def send_raw(at: Path, raw: bytes) -> protocol.Reply | None:
    """Return the vault's reply to these bytes; None if it only disconnects."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(at))
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has replied before reading everything
        try:
            return protocol.decode_reply(protocol.receive(connection, 2**20, 20))
        except ConnectionError:
            return None


def asking(**overrides: Any) -> dict[str, Any]:
    full = {"type": "Ask", "vault": bytes(32), "learner": "clipd2p", "kind": "gradient", "slot": 0, "point": bytes(96)}
    return {**full, **overrides}


MALFORMED = {
    "no frame": b"GET / HTTP/1.1\r\n\r\n",
    "another version": framed(b"", version=protocol.VERSION + 1),
    "too long": framed(b"", length=2**32 - 1),
    "nothing": framed(b""),
    "not MessagePack": framed(b"\xc1"),
    "a number": framed(msgspec.msgpack.encode(7)),
    "nested": framed(b"\x91" * 1000),
    "no such question": framed(msgspec.msgpack.encode({"type": "Records"})),
    "a reply": framed(msgspec.msgpack.encode({"type": "Failed", "kind": "x", "explanation": "y"})),
    "an unknown field": framed(msgspec.msgpack.encode(asking(clip=1e9))),
    "no field": framed(msgspec.msgpack.encode({"type": "Ask"})),
    "a short fingerprint": framed(msgspec.msgpack.encode(asking(vault=b"x"))),
    "a negative slot": framed(msgspec.msgpack.encode(asking(slot=-1))),
    "a huge slot": framed(msgspec.msgpack.encode(asking(slot=2**64 - 1))),
    "a long name": framed(msgspec.msgpack.encode(asking(learner="x" * 65))),
    "a name that is no text": framed(
        msgspec.msgpack.encode(asking(learner=1)).replace(b"learner\x01", b"learner\xa2\xff\xfe")
    ),
    "more after the end": framed(msgspec.msgpack.encode({"type": "Introduce"}) + b"\x00"),
}


@pytest.fixture
def attacked_vault(make_vault: MakeVault, at: Path, budget: Budget) -> Iterator[tuple[Path, RemoteVault]]:
    """A vault that still answers afterwards and was charged nothing."""
    with serve_vault(make_served(make_vault(), OWNER, budget), at), closing(met(at, budget)) as remote:
        yield at, remote
        assert remote.spending().charges == 0


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_an_invalid_query_gets_one_clear_error(attacked_vault: tuple[Path, RemoteVault], raw: bytes) -> None:
    reply = send_raw(attacked_vault[0], raw)
    assert isinstance(reply, Failed)
    assert reply.kind == "malformed"
    assert reply.explanation


def test_a_truncated_number_is_malformed(attacked_vault: tuple[Path, RemoteVault]) -> None:
    at, remote = attacked_vault
    reply = send_raw(at, framed(msgspec.msgpack.encode(asking(vault=remote._fingerprint, point=bytes(95)))))
    assert reply == Failed("malformed", "a point must consist of 8-byte numbers")


def test_random_bytes_and_corrupt_queries_change_nothing(attacked_vault: tuple[Path, RemoteVault]) -> None:
    at, remote = attacked_vault
    rng = random.Random(3)
    full = framed(msgspec.msgpack.encode(asking(kind="record", vault=remote._fingerprint)))
    for _ in range(300):
        damaged = bytearray(full)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(8, len(damaged))] = rng.randrange(256)
        for raw in (bytes(damaged), full[: rng.randrange(len(full))], framed(rng.randbytes(rng.randrange(64)))):
            reply = send_raw(at, raw)
            assert reply is None or isinstance(reply, Failed | protocol.Denied)


def test_silent_and_unfinished_clients_are_not_waited_for(
    make_vault: MakeVault, at: Path, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may connect and stay silent, or send half a query."""
    monkeypatch.setattr(server, "_PATIENCE_SECONDS", 0.2)
    with (
        serve_vault(make_served(make_vault(), OWNER, budget), at),
        closing(met(at, budget)) as remote,
        socket.socket(socket.AF_UNIX) as silent,
        socket.socket(socket.AF_UNIX) as slow,
    ):
        silent.connect(str(at))
        slow.connect(str(at))
        slow.sendall(framed(b"", length=100))
        began = time.monotonic()
        assert remote.spending().charges == 0
        assert 0.3 < time.monotonic() - began < 10
