"""Broken plug-ins: a command that names one reports its package and line; no other command is affected."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.plugins import example, install, run
from tests.support.processes import SOTTOVOCE

pytestmark = pytest.mark.process

GROUP = "sottovoce.algorithms"
POINT = "momentum-sgd = momentum_sgd:ALGORITHM"
QUESTION = "        return None if 0 in work.answers else (0, work.model)"
REPLACED = "\nfrom dataclasses import replace\nALGORITHM = replace(ALGORITHM, {})\n"
BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "syntax": (lambda code: "def torn(:\n", "momentum_sgd.py line 1"),
    "import": (lambda code: code + "\nimport nowhere\n", "nowhere"),
    "wrong-type": (lambda code: code + "\nALGORITHM = 3\n", "is of type int, not Algorithm"),
    "misnamed": (lambda code: code.replace('tag="momentum-sgd"', 'tag="another"'), "tagged 'another'"),
    "exception-in-question": (
        lambda code: code.replace(QUESTION, "        return 1 / 0"),
        "division by zero",
    ),
    "exception-in-message": (
        lambda code: code.replace("        return work.model[None]", "        return work.nothing"),
        "AttributeError",
    ),
    "exception-in-settings": (
        lambda code: code.replace(
            'that is kept, β")] = 0.0\n', 'that is kept, β")] = 0.0\n\n    def __post_init__(self):\n        1 / 0\n'
        ),
        "ZeroDivisionError",
    ),
    "exception-in-parts": (
        lambda code: code.replace("MomentumSgd(settings_of", "MomentumSgd(config.x or settings_of"),
        "AttributeError",
    ),
    "no-family": (lambda code: code + REPLACED.format("parts=lambda c, p: 3"), "not Family"),
    "exit": (lambda code: code.replace(QUESTION, "        raise SystemExit(3)"), "SystemExit"),
}

WITHOUT_A_LINE = ("wrong-type", "misnamed", "no-family")
"""Defects of an object, not of a line."""


@pytest.mark.parametrize("defect", BROKEN)
def test_a_command_that_uses_the_plugin_names_the_faulty_package(tmp_path: Path, defect: str) -> None:
    change, words = BROKEN[defect]
    install(tmp_path, "momentum-sgd", change(example()), GROUP, POINT)
    keys = ("agents=3", "topology=full", "cycles=6", "learner.momentum=0.5")
    completed = run(tmp_path, SOTTOVOCE, "simulate", "momentum-sgd", *(word for key in keys for word in ("--set", key)))
    assert completed.returncode == 9, completed.stdout + completed.stderr
    assert "Traceback" not in completed.stderr
    (message,) = completed.stderr.splitlines()[-1:]
    assert message.startswith("sottovoce: learner momentum-sgd of package momentum-sgd 1.0: ")
    assert words in message
    assert defect in WITHOUT_A_LINE or re.search(r"momentum_sgd\.py line \d+", message)


def test_the_traceback_is_printed_on_request(tmp_path: Path) -> None:
    install(tmp_path, "momentum-sgd", example().replace(QUESTION, "        return 1 / 0"), GROUP, POINT)
    command = (SOTTOVOCE, "simulate", "momentum-sgd", "--set", "agents=3", "--set", "cycles=6")
    completed = run(tmp_path, *command, SOTTOVOCE_TRACEBACK="1")
    assert completed.returncode == 9
    assert "Traceback" in completed.stderr
    assert "return 1 / 0" in completed.stderr


@pytest.mark.parametrize("defect", ["exception-in-question", "exception-in-message"])
def test_a_device_that_uses_the_plugin_ends(tmp_path: Path, defect: str) -> None:
    change, words = BROKEN[defect]
    install(tmp_path, "momentum-sgd", change(example()), GROUP, POINT)
    completed = run(
        tmp_path, SOTTOVOCE, "testbed", "--learner", "momentum-sgd", "--agents", 2, "--cycles", 5, "--period", 0.2
    )
    assert completed.returncode == 9, completed.stdout + completed.stderr
    assert words in completed.stderr
    assert "Traceback" not in completed.stderr


def test_an_incompatible_version_is_refused(tmp_path: Path) -> None:
    install(tmp_path, "momentum-sgd", example(), GROUP, POINT, requires="sottovoce>=99")
    completed = run(tmp_path, SOTTOVOCE, "simulate", "momentum-sgd", "--set", "cycles=6")
    assert completed.returncode == 9
    assert "the package requires sottovoce >=99, but this is" in completed.stderr


def test_a_duplicate_name_is_an_error_only_for_commands_that_use_it(tmp_path: Path) -> None:
    code = example().replace('tag="momentum-sgd"', 'tag="golf"')
    install(tmp_path, "momentum-sgd", code, GROUP, "golf = momentum_sgd:ALGORITHM")
    named = run(tmp_path, SOTTOVOCE, "testbed", "--learner", "golf", "--agents", 2)
    assert (named.returncode, named.stderr.count("\n")) == (9, 1)
    assert (
        "learner golf of package momentum-sgd 1.0: Sottovoce itself uses this name; rename the entry point"
        in named.stderr
    )
    other = run(tmp_path, SOTTOVOCE, "simulate", "average", "--set", "agents=3", "--set", "cycles=5", "--json")
    assert other.returncode == 0, other.stderr


def test_corrupt_metadata_in_another_package_ends_no_command(tmp_path: Path) -> None:
    install(tmp_path, "momentum-sgd", example(), GROUP, POINT)
    torn = tmp_path / "torn-1.0.dist-info"
    torn.mkdir()
    (torn / "entry_points.txt").write_text("[sottovoce.algorithms]\nno equals sign\n", encoding="utf-8")
    other = run(tmp_path, SOTTOVOCE, "simulate", "average", "--set", "agents=3", "--set", "cycles=5")
    assert other.returncode == 0, other.stderr
    listed = run(tmp_path, SOTTOVOCE, "plugins", "--check")
    assert (listed.returncode, "momentum-sgd" in listed.stdout) == (0, True), listed.stderr


LEAKY_TERMS = """
from dataclasses import replace

class _Terms:
    def __init__(self, inner):
        self._inner = inner
    def __getattr__(self, name):
        return getattr(self._inner, name)
    def context(self, records, *others):
        raise ValueError(f"the row {3 + 0.14159}")

_OWN = ALGORITHM.parts

def _parts(config, public):
    family = _OWN(config, public)
    return replace(family, terms=_Terms(family.terms))

ALGORITHM = replace(ALGORITHM, parts=_parts)
"""


def test_the_text_of_an_exception_in_a_learner_s_private_half_is_never_printed(tmp_path: Path) -> None:
    install(tmp_path, "momentum-sgd", example() + LEAKY_TERMS, GROUP, POINT)
    completed = run(tmp_path, SOTTOVOCE, "simulate", "momentum-sgd", "--set", "agents=3", SOTTOVOCE_TRACEBACK="1")
    assert (completed.returncode, "3.14159" in completed.stdout + completed.stderr) == (9, False)
    assert re.search(r"context\(\) at .*momentum_sgd\.py line \d+", completed.stderr)


def test_a_loader_s_exception_text_is_never_printed(tmp_path: Path) -> None:
    code = (
        "from sottovoce.data.spec import DataKind\nfrom sottovoce.errors import DataError\n"
        "def load():\n    raise DataError('the row 3.14159')\n"
        "KIND = DataKind('leaky', load, has_path=False)\n"
    )
    install(tmp_path, "leaky", code, "sottovoce.datasets", "leaky = leaky:KIND")
    completed = run(tmp_path, SOTTOVOCE, "simulate", "clipd2p", "--set", "data.source=leaky", "--set", "cycles=5")
    assert (completed.returncode, "3.14159" in completed.stdout + completed.stderr) == (9, False)
    assert "leaky.py line 4" in completed.stderr


def test_a_transport_or_data_kind_with_a_builtin_name_ends_no_usual_command(tmp_path: Path) -> None:
    install(tmp_path, "taken", "GRPC = 1\n", "sottovoce.transports", "grpc = taken:GRPC")
    install(tmp_path, "also", "DIGITS = 1\n", "sottovoce.datasets", "digits = also:DIGITS")
    completed = run(tmp_path, SOTTOVOCE, "simulate", "clipd2p", "--set", "agents=3", "--set", "cycles=5")
    assert completed.returncode == 0, completed.stderr
    checked = run(tmp_path, SOTTOVOCE, "plugins", "--check")
    assert (checked.returncode, checked.stdout.count("Sottovoce itself uses this name")) == (9, 2)


_KIND = """
from dataclasses import replace
import numpy as np
from sottovoce.data import Table
from sottovoce.data.spec import DataKind
def load():
    rows = np.zeros((60, 2)), np.arange(60) % 2
    return Table(name="odd", rows=rows, classes=2, bounds={bounds}, origin="data kind odd")
KIND = DataKind("odd", load, has_path=False, {fields})
"""


@pytest.mark.parametrize(
    "bounds, fields, words, code",
    [
        ("(np.full(2, np.nan), np.ones(2))", "", "data kind odd: bounds must be finite", 4),
        ("(np.zeros(3), np.ones(3))", "", "data kind odd: bounds must be a low and a high number for each of the 2", 4),
        ("7", "", "data kind odd of package odd 1.0: TypeError", 9),
        ("None", "required=('year',)", "the kind requires an option that it does not declare", 9),
    ],
)
def test_a_data_kind_with_invalid_parts_is_refused(
    tmp_path: Path, bounds: str, fields: str, words: str, code: int
) -> None:
    install(tmp_path, "odd", _KIND.format(bounds=bounds, fields=fields), "sottovoce.datasets", "odd = odd:KIND")
    completed = run(tmp_path, SOTTOVOCE, "simulate", "clipd2p", "--set", "data.source=odd", "--set", "cycles=5")
    assert words in completed.stderr
    assert completed.returncode == code


def test_a_broken_transport_is_detected_before_the_agent_starts(tmp_path: Path) -> None:
    install(tmp_path, "silent", "TRANSPORT = 3\n", "sottovoce.transports", "silent = silent:TRANSPORT")
    file = tmp_path / "agent.toml"
    file.write_text(
        f'[agent]\nstate = "{tmp_path}/state"\n[data]\nsource = "digits"\nbounds = [0, 16]\nclasses = 10\n'
        f'features = 64\nexpected_records = 100\n[transport]\nuse = ["silent"]\n'
        '[transport.plugins.silent]\nannounce = "silent://a"\n'
    )
    completed = run(tmp_path, SOTTOVOCE, "config", "check", str(file))
    assert "transport silent of package silent" in completed.stderr
    assert "silent:TRANSPORT is of type int, not TransportPlugin" in completed.stderr
    assert completed.returncode == 9
