"""Devices that are down or partitioned: the seed decides, whatever cycles are requested."""

import pytest
from sottovoce_lab.simulator import Faults
from sottovoce_lab.simulator.absences import Absence
from sottovoce_lab.simulator.fault_schedule import CycleFaults, FaultSchedule

NAMES = [f"agent-{place}" for place in range(20)]


def turns(faults: Faults, cycles: int = 40, seed: int = 1, names: list[str] = NAMES) -> list[CycleFaults]:
    fate = FaultSchedule(faults, names, seed)
    return [fate.at(cycle) for cycle in range(1, cycles + 1)]


def agents_down(history: list[CycleFaults]) -> list[set[int]]:
    """Return the agents that are down after each turn, after checking that each kill and start changes something."""
    results, now = [], set[int]()
    for turn in history:
        assert not now & set(turn.killed)
        assert now >= set(turn.restarted)
        now = (now | set(turn.killed)) - set(turn.restarted)
        results.append(now)
    return results


def test_a_share_is_killed_and_part_of_it_restarts() -> None:
    history = turns(Faults.parse(["kill=0.5@cycle:10", "restart=0.6@cycle:20"]))
    assert [len(gone) for gone in agents_down(history)] == [0] * 9 + [10] * 10 + [4] * 21
    assert [turn.notes for turn in history if turn.notes] == [
        ("cycle 10: killed " + ", ".join(NAMES[index] for index in history[9].killed),),
        ("cycle 20: restarted " + ", ".join(NAMES[index] for index in history[19].restarted),),
    ]
    assert history[9].killed != turns(Faults.parse(["kill=0.5@cycle:10"]), seed=2)[9].killed


def test_a_partition_begins_and_ends_with_devices_on_both_sides() -> None:
    history = turns(Faults.parse(["partition=0.3@cycle:5-8"]))
    assert [len(turn.cut_off) for turn in history] == [0] * 4 + [6] * 3 + [0] * 33
    assert len({turn.cut_off for turn in history}) == 2
    assert history[7].notes == ("cycle 8: the two sides are connected again",)


def test_rare_observation_misses_nothing() -> None:
    words = ["kill=0.5@cycle:10", "restart=1@cycle:20", "partition=0.3@cycle:5-8", "churn=lognormal(2,1)"]
    faults = Faults.parse(words)
    every, fate = turns(faults), FaultSchedule(faults, NAMES, 1)
    seldom = [fate.at(cycle) for cycle in (7, 15, 33)]
    assert agents_down(seldom) == [agents_down(every)[cycle - 1] for cycle in (7, 15, 33)]
    assert [turn.cut_off for turn in seldom] == [every[cycle - 1].cut_off for cycle in (7, 15, 33)]
    assert [len(turn.notes) for turn in seldom] == [1, 2, 1]


def test_log_normal_churn_keeps_nine_in_ten_online_and_changes() -> None:
    history = turns(Faults.parse(["churn=lognormal(2,1)"]), 400, names=[str(index) for index in range(200)])
    share = sum(map(len, agents_down(history))) / (400 * 200)
    assert share == pytest.approx(0.1, abs=0.03)
    assert sum(len(turn.killed) for turn in history) > 1000
    assert history == turns(Faults.parse(["churn=lognormal(2,1)"]), 400, names=[str(index) for index in range(200)])


def test_a_trace_is_followed_and_killed_devices_stay_down() -> None:
    trace = (Absence(0, 3, 6), Absence(0, 5, 8), Absence(7, 40, 41))
    assert [0 in gone for gone in agents_down(turns(Faults(churn=trace)))] == [False] * 2 + [True] * 5 + [False] * 33
    assert [7 in gone for gone in agents_down(turns(Faults(churn=trace)))] == [False] * 39 + [True]
    everybody = Faults(churn=trace, kill=Faults.parse(["kill=1@cycle:4"]).kill)
    assert [len(gone) for gone in agents_down(turns(everybody))] == [0, 0, 1] + [20] * 37


@pytest.mark.parametrize(
    "faults, cycle, back",
    [
        (Faults.parse(["kill=1@cycle:4"]), 5, False),
        (Faults.parse(["kill=1@cycle:4", "restart=1@cycle:8"]), 5, True),
        (Faults.parse(["kill=1@cycle:4", "restart=0@cycle:8"]), 5, False),
        (Faults.parse(["kill=1@cycle:4", "restart=1@cycle:8"]), 8, False),
        (Faults(churn=(Absence(0, 3, 6),)), 4, True),
        (Faults(churn=(Absence(0, 3, 6),)), 6, False),
        (Faults.parse(["churn=lognormal(2,1)"]), 4, True),
    ],
)
def test_it_is_known_whether_any_device_returns(faults: Faults, cycle: int, back: bool) -> None:
    assert FaultSchedule(faults, NAMES, 0).will_restart_after(cycle) is back
