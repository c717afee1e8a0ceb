"""The commands of docs/how-to/install.md, block by block, as the page shows them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.machines import Machine

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install.md"
_BLOCK = re.compile(r"<!-- not run: [^>]*runs it on (?P<machine>\w+) -->\n```sh\n(?P<script>.*?)```\n", re.DOTALL)
_SHELL = re.compile(r"^```(sh|bash|console)\n", re.MULTILINE)
_EXCUSED = (
    "<!-- not run: only for some devices -->",
    "<!-- not run: takes minutes; `make deb-test` builds both releases -->",
)
_UPGRADE = re.compile(
    r"<!-- not run: needs Debian 12; `make deb-test` upgrades it -->\n```sh\n(?P<script>.*?)```\n", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of commands on the page.

    Attributes:
        machine: machine to run them on.
        script: all the commands.
    """

    machine: str
    script: str

    @property
    def commands(self) -> list[str]:
        """The commands, one a line, with continued lines joined."""
        return self.script.replace("\\\n", " ").strip().splitlines()


def blocks() -> list[Block]:
    """Every block that is for a machine, in the page's order."""
    return [Block(found["machine"], found["script"]) for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def walk() -> Iterator[Block]:
    """The blocks; fails at once when the page shows shell commands that no machine runs."""
    text = PAGE.read_text(encoding="utf-8")
    found = blocks()
    elsewhere = len(_UPGRADE.findall(text)) + sum(text.count(mark) for mark in _EXCUSED)
    assert len(found) + elsewhere == len(_SHELL.findall(text)), "a shell block of the page is run nowhere"
    yield from found


def debian_upgrade() -> str:
    """The script that upgrades Debian 12 to 13 on a device."""
    found = _UPGRADE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 1, "the page has one upgrade of Debian"
    return str(found[0])


class Walk:
    """A walk through the page's blocks, one after the other."""

    def __init__(self, by_name: dict[str, Machine]) -> None:
        self._machines, self._blocks = by_name, walk()
        self._next: Block | None = next(self._blocks)

    def block(self, name: str, holds: str) -> Block:
        """The next block, which is for `name` and contains `holds`."""
        block = self._next
        assert block is not None
        assert (block.machine, holds in block.script) == (name, True), (name, holds, block)
        self._next = next(self._blocks, None)
        for command in block.commands:
            print(f"    {name}# {command}", flush=True)
        return block

    def run(self, name: str, holds: str, *, stdin: str = "") -> str:
        """Run the next block, and return what it prints."""
        return self._machines[name].sh(self.block(name, holds).script, stdin=stdin)

    def done(self) -> None:
        """Check that every block has been run."""
        assert self._next is None, self._next
