"""A few runs of the storm, of which `make storm` plays many, and a defect that is found, shrunk and replayed."""

from typing import Any

import pytest
from sottovoce.node.core import Core
from sottovoce_lab.simulator import simulation as engine

from tests.storm.__main__ import main
from tests.storm.defects import DEFECTS, find_first_complaint
from tests.storm.run import play, shrink
from tests.storm.weather import LEARNERS, weather


@pytest.mark.parametrize("seed", range(2 * len(LEARNERS)))
def test_no_invariant_is_violated(seed: int) -> None:
    outcome = play(weather(seed))
    assert not outcome.complaint, f"python -m tests.storm --seed {seed}"


def test_a_seed_determines_the_run() -> None:
    assert weather(7) == weather(7)
    assert len({repr(weather(seed).faults) for seed in range(40)}) > 30


class AppliesRepeatedMessages(Core):
    """Faulty core that applies repeated messages again."""

    def receive(self, sender: str, *rest: Any) -> Any:
        self._seen.pop(sender, None)
        return super().receive(sender, *rest)


@pytest.mark.slow
def test_a_defect_is_found_shrunk_and_replayed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "Core", AppliesRepeatedMessages)
    first = next(outcome for seed in range(50) if (outcome := play(weather(seed))).complaint)
    assert "applied twice" in first.complaint
    smallest = shrink(first)
    assert smallest.complaint
    assert len(smallest.weather.faults) <= len(first.weather.faults)
    monkeypatch.setattr("sys.argv", ["storm", "--seed", str(first.weather.seed)])
    assert main() == 1
    assert f"python -m tests.storm --seed {first.weather.seed}" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr("sys.argv", ["storm", "--seed", str(first.weather.seed)])
    assert main() == 0


@pytest.mark.parametrize(
    "defect", ["A repetition is applied again", "With pairwise mixing, both devices move in the same direction"]
)
def test_planted_defects_are_found(defect: str) -> None:
    assert find_first_complaint(DEFECTS[defect], 30) is not None
