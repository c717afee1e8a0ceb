"""Few runs of the storm, of which `make storm` plays many; and a defect that is found, shrunk and replayed."""

from typing import Any

import pytest
from sottovoce.agent.core import Core
from sottovoce_lab.simulator import simulation as engine

from tests.storm.__main__ import main
from tests.storm.defects import DEFECTS, found
from tests.storm.run import played, shrunk
from tests.storm.weather import LEARNERS, weather


@pytest.mark.parametrize("seed", range(2 * len(LEARNERS)))
def test_no_law_is_broken(seed: int) -> None:
    outcome = played(weather(seed))
    assert not outcome.complaint, f"python -m tests.storm --seed {seed}"


def test_a_seed_is_a_run() -> None:
    assert weather(7) == weather(7)
    assert len({repr(weather(seed).faults) for seed in range(40)}) > 30


class Forgetful(Core):
    """Core that takes repeated messages for new ones."""

    def receive(self, sender: str, *rest: Any) -> Any:
        self._seen.pop(sender, None)
        return super().receive(sender, *rest)


def test_a_defect_is_found_with_what_it_needs_and_shown_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "Core", Forgetful)
    first = next(outcome for seed in range(50) if (outcome := played(weather(seed))).complaint)
    assert "applied twice" in first.complaint
    least = shrunk(first)
    assert least.complaint
    assert len(least.weather.faults) <= len(first.weather.faults)
    monkeypatch.setattr("sys.argv", ["storm", "--seed", str(first.weather.seed)])
    assert main() == 1
    assert f"python -m tests.storm --seed {first.weather.seed}" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr("sys.argv", ["storm", "--seed", str(first.weather.seed)])
    assert main() == 0


@pytest.mark.parametrize("defect", ["A repetition is applied again", "In pairs both go the same way"])
def test_a_planted_defect_is_found(defect: str) -> None:
    assert found(DEFECTS[defect], 30) is not None
