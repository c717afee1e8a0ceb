"""Test that messages arrive unaltered with their authenticated sender, and that strangers are refused."""

import asyncio
from pathlib import Path

from sottovoce.testing import check_transport
from unix_pipe import TRANSPORT


def test_it_keeps_the_contract(tmp_path: Path) -> None:
    asyncio.run(check_transport(TRANSPORT, lambda name: {"announce": f"unix-pipe://{tmp_path / name}.sock"}))
