"""`sottovoce plugins --check`: a learner that no fleet can run is broken, whatever its import does."""

import pytest
from sottovoce.cli.plugins import run_plugins
from sottovoce.errors import ExitCode
from sottovoce.plugins import LEARNER

from tests.unit.testing.conftest import Installed


def test_the_template_of_any_learner_works(installed: Installed, capsys: pytest.CaptureFixture[str]) -> None:
    installed(LEARNER, "learner", "ALGORITHM", str)
    assert run_plugins(check=True) is None
    assert "works" in capsys.readouterr().out


@pytest.mark.parametrize(
    "own, broken, words",
    [
        pytest.param('tag="class-sums"', 'tag="another"', "another", id="tag"),
        pytest.param('models=("softmax",)', 'models=("softmx",)', "softmx", id="model"),
        pytest.param("payloads={ClassSum.kind: lambda: PlainCodec(ClassSum)}", "payloads={}", "payloads", id="payload"),
        pytest.param("def on_release", "def unused", "on_release", id="method"),
        pytest.param("Family(kernel, None, terms, create)", "None", "Family", id="parts"),
    ],
)
def test_a_learner_that_no_fleet_can_run_is_broken(
    installed: Installed, capsys: pytest.CaptureFixture[str], own: str, broken: str, words: str
) -> None:
    installed(LEARNER, "learner", "ALGORITHM", lambda code: code.replace(own, broken))
    assert run_plugins(check=True) is ExitCode.PLUGIN
    listed = capsys.readouterr().out
    assert "works" not in listed
    assert "of package class-sums 1.0" in listed
    assert words in listed
