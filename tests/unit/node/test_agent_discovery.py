"""Discovery: sources are queried in parallel and at their own pace, and failures are logged but never fatal."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from sottovoce.errors import InternalError, NetworkError
from sottovoce.node.network import Discovery
from sottovoce.node.waits import Waits
from sottovoce_bootstrap import Contact

from tests.support.waiting import eventually, let_others_run

SOMEBODY = Contact("a" * 32, ("10.0.0.1:7400",))


class Scripted:
    """Source with prescribed results, of which the last is repeated."""

    def __init__(self, name: str, *script: Sequence[Contact] | Exception) -> None:
        self.name = name
        self.statistics = 0
        self.closed = False
        self._script = script

    async def look(self) -> Sequence[Contact]:
        outcome = self._script[min(self.statistics, len(self._script) - 1)]
        self.statistics += 1
        await let_others_run()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        self.closed = True


class Stuck(Scripted):
    """Source that never finishes a search or its closing."""

    async def look(self) -> Sequence[Contact]:
        self.statistics += 1
        await asyncio.Event().wait()
        return ()

    async def close(self) -> None:
        await asyncio.Event().wait()


class Rig:
    """A discovery, the contacts it has reported, and the number of known devices."""

    def __init__(self, *sources: Scripted, period: float = 0.01) -> None:
        self.discovery = Discovery(sources, period, 30, random.Random(1))
        self.waits = Waits()
        self.learnt: dict[str, list[Sequence[Contact]]] = {}
        self.known = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        work = asyncio.ensure_future(self.discovery.run(lambda: self.known, self._learn, self.waits))
        try:
            yield work
        finally:
            self.discovery.stop()
            await asyncio.wait({work})

    def _learn(self, source: str, contacts: Sequence[Contact]) -> None:
        self.learnt.setdefault(source, []).append(contacts)


async def test_sources_are_searched_in_parallel() -> None:
    rig = Rig(Stuck("dns", ()), Scripted("mdns", NetworkError("no network")), Scripted("mqtt", [SOMEBODY]))
    async with rig.running():
        await eventually(lambda: rig.learnt.get("mqtt"))
        await eventually(lambda: rig.discovery.statistics["mdns"].failures >= 2)
        waiting = {wait["name"]: wait["reason"] for wait in rig.waits.to_dict()}
    assert rig.learnt["mqtt"][0] == [SOMEBODY]
    assert set(rig.learnt) == {"mqtt"}
    assert waiting["source:dns"] == "contacts from dns"
    assert waiting["source:mdns"] == "the next query to mdns (the last query failed: no network)"


async def test_a_failure_is_reported_once_a_minute_and_cleared_by_a_success(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.node.network.pause", lambda *_: 0.0)
    failures = [NetworkError("nobody answers")] * 5
    source = Scripted("dns", *failures, ValueError("a library's own"), [SOMEBODY])
    rig = Rig(source)
    with caplog.at_level(logging.WARNING):
        async with rig.running():
            await eventually(lambda: source.statistics >= 6)
            await eventually(lambda: rig.learnt)
            assert rig.discovery.statistics["dns"].failures == 0
            assert rig.discovery.statistics["dns"].found == 1
    reported = [record.getMessage() for record in caplog.records if "discovery-failed" in record.getMessage()]
    assert reported == ["discovery-failed source=dns nobody answers"]


async def test_searches_are_rare_with_contacts_and_frequent_without() -> None:
    source = Scripted("mdns", [SOMEBODY])
    rig = Rig(source)
    rig.known = 5
    async with rig.running():
        await eventually(lambda: source.statistics == 1, "it has searched")
        await let_others_run(50)
        assert source.statistics == 1, "five seconds is the minimum"
        rig.known = 0
        await eventually(lambda: source.statistics == 2)


async def test_an_endless_search_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.node.network._QUERY_SECONDS", 0.01)
    rig = Rig(Stuck("mdns", ()))
    async with rig.running():
        await eventually(lambda: rig.discovery.statistics["mdns"].failures)
        assert "no answer within" in rig.discovery.statistics["mdns"].last_failure


async def test_stopping_ends_a_running_search_and_does_not_wait_for_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sottovoce.node.network._CLOSE_SECONDS", 0.01)
    stuck, other = Stuck("mdns", ()), Scripted("dns", [SOMEBODY])
    rig = Rig(stuck, other)
    async with rig.running():
        await eventually(lambda: stuck.statistics)
    await rig.discovery.close()
    assert other.closed


async def test_a_defect_is_not_swallowed() -> None:
    rig = Rig(Scripted("dns", [SOMEBODY]))

    def learn(_: str, __: Sequence[Contact]) -> None:
        raise InternalError("please report it")

    with pytest.raises(InternalError):
        await rig.discovery.run(lambda: 0, learn, rig.waits)


async def test_without_sources_there_is_nothing_to_do() -> None:
    rig = Rig()
    async with rig.running() as work:
        await let_others_run()
        assert not work.done()
    assert rig.waits.to_dict() == []
