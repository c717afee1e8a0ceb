"""Halves of papers' learners: a private half stands alone and unchanged, and a public one touches nothing private."""

import ast
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sottovoce.plugin
import sottovoce_papers
from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import PrivacyError
from sottovoce.node.local_vault import check_private_half
from sottovoce.privacy.terms.rows import OutsideTerms
from sottovoce_papers.hegedus_2017.gradient_walk.private import terms as walk_terms

_PAPERS = Path(sottovoce_papers.__file__).parent
_HOMES: dict[str, str] = vars(sottovoce.plugin)["_MODULES"]
_PRIVATE = ("sottovoce.data", "sottovoce.privacy.ledger", "sottovoce.privacy.mechanisms", "sottovoce.privacy.terms",
            "sottovoce.privacy.vault")  # fmt: skip


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, name.name) for name in node.names)


def _files(folder: str) -> list[Path]:
    return sorted(file for half in _PAPERS.glob(f"**/{folder}") for file in half.glob("*.py"))


@pytest.mark.parametrize("file", _files("private"), ids=lambda file: file.relative_to(_PAPERS).as_posix())
def test_a_private_half_imports_nothing_whose_digest_the_device_does_not_have(file: Path) -> None:
    folder = ".".join(file.parent.relative_to(_PAPERS.parent).parts)
    outside = {module for module, _ in _imports(file) if not f"{module}.".startswith(f"{folder}.")}
    allowed = {"numpy", "numpy.typing", "sottovoce.plugin", *sys.stdlib_module_names}
    assert {module for module in outside if module.partition(".")[0] not in sys.stdlib_module_names} <= allowed


@pytest.mark.parametrize("file", _files("public"), ids=lambda file: file.relative_to(_PAPERS).as_posix())
def test_a_public_half_takes_nothing_from_the_door_that_reads_records(file: Path) -> None:
    taken = {name for module, name in _imports(file) if module == "sottovoce.plugin"}
    assert not {name for name in taken if _HOMES[name].startswith(_PRIVATE)}
    assert not {module for module, _ in _imports(file) if ".private" in module}


def _walk() -> AgentConfig:
    return config_from_tables(
        {
            "agent": {"state": "."},
            "data": {"source": "digits", "features": 64, "classes": 10, "expected_records": 180.0},
            "learner": {"name": "gradient-walk"},
            "privacy": {"epsilon": 2.0},
        },
        "test",
    )


def test_an_unchanged_private_half_is_trusted() -> None:
    family = build_family(_walk())
    assert isinstance(family.terms, walk_terms.WalkTerms)
    check_private_half(family, allow_unproved=False)


def test_a_tampered_private_half_states_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(Path(walk_terms.__file__).parent, tmp_path / "private")
    program = copy / "program.py"
    program.write_text(program.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    monkeypatch.setattr(walk_terms, "__file__", str(copy / "terms.py"))
    family = build_family(_walk())
    assert isinstance(family.terms, OutsideTerms)
    with pytest.raises(PrivacyError, match=r"learner.name: no ε is proved: .*sottovoce_papers.*reinstall"):
        check_private_half(family, allow_unproved=False)
