"""Packages that a test installs for its own process."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sottovoce.data import spec
from sottovoce.learning import registry
from sottovoce.plugins import KINDS, attribution, discovery

from tests.support.plugins import install
from tests.support.sources import ROOT

_TEMPLATES = ROOT / "lab/sottovoce_lab/templates"

Installed = Callable[[str, str, str, Callable[[str], str]], object]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Return a function that installs the package of a template, and returns its object.

    Its arguments are the plug-in's kind, the template, the object's name in the module, and a change of the code.
    """
    modules = set(sys.modules)
    monkeypatch.setattr(attribution, "_loaded", [])
    monkeypatch.setattr(registry, "_PLUGIN_ALGORITHMS", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def clear() -> None:
        for cached in (discovery._installed, discovery._any_plugin_installed, spec._unproved_reason):
            cached.cache_clear()

    def make(kind: str, template: str, attribute: str, change: Callable[[str], str]) -> object:
        (file,) = (_TEMPLATES / template).glob("*.py")
        code, name = file.read_text(encoding="utf-8"), file.stem.replace("_", "-")
        assert change is str or change(code) != code, "the change no longer fits the template"
        home = tmp_path / "site"
        home.mkdir()
        install(home, name, change(code), KINDS[kind], f"{name} = {file.stem}:{attribute}")
        monkeypatch.syspath_prepend(home)
        clear()
        return getattr(__import__(file.stem), attribute)

    yield make
    clear()
    for module in set(sys.modules) - modules:
        if module in {file.stem for file in _TEMPLATES.glob("*/*.py")}:
            del sys.modules[module]
