"""The page on the wire format agrees with the code and with the schemas."""

import re
from typing import get_args

import pytest
from msgspec import msgpack
from sottovoce.algorithms.cell.public.messages import AnyContent, Over
from sottovoce.learning.registry import loaded_algorithms
from sottovoce.net.wire import LEDGER_HEAD, PEER_EXCHANGE
from sottovoce.net.wire.revocation import REVOCATIONS
from sottovoce.node.gossip.fleet_tasks import FLEET_TASK
from sottovoce.node.gossip.result_gossip import RESULTS
from sottovoce.node.tasks import ROLL_CALL, TASK

from tests.support.sources import ROOT
from tests.support.wire_schema import PAGE, filled

SCHEMAS = ROOT / "proto/sottovoce/v1"


def test_the_tables_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run `python -m tests.support.wire_schema`"


@pytest.mark.papers
def test_every_payload_type_is_listed() -> None:
    first_cells = re.findall(r"^\| (`[^|]*/\d`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {kind for cell in first_cells for kind in re.findall(r"`([^`]+)`", cell)}
    of_learners = {kind for algorithm in loaded_algorithms().values() for kind in algorithm.payloads}
    assert listed == of_learners | {LEDGER_HEAD, PEER_EXCHANGE, REVOCATIONS, FLEET_TASK, RESULTS, ROLL_CALL, TASK}


def test_every_named_message_is_in_its_schema() -> None:
    rows = re.findall(
        r"^\| `[^|]*/\d` \| \[([^\]]*)\]\([^)]*/([\w.]+)\)", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) >= 10
    for names, schema in rows:
        text = (SCHEMAS / schema).read_text(encoding="utf-8")
        assert all(f"message {name} {{" in text for name in re.findall(r"`(\w+)`", names)), (names, schema)


def test_the_schema_of_secure_sums_lists_every_tag() -> None:
    comment = (SCHEMAS / "secure_sum.proto").read_text(encoding="utf-8").partition("is a tag: ")[2].partition(".")[0]
    tags = {kind.__struct_config__.tag for kind in get_args(AnyContent)}
    assert set(re.findall(r"[A-Z]\w+", comment)) == tags


def test_a_message_is_an_array_that_begins_with_its_tag() -> None:
    assert msgpack.decode(msgpack.encode(Over(b"r" * 32))) == ["Over", b"r" * 32]
