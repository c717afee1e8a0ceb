"""Devices that are down or partitioned: the seed decides, whatever cycles are requested."""

import pytest
from sottovoce_lab.simulator import Faults
from sottovoce_lab.simulator.absences import Absence
from sottovoce_lab.simulator.fault_schedule import CycleFaults, FaultSchedule

NAMES = [f"agent-{place}" for place in range(20)]


def fault_history(faults: Faults, cycles: int = 40, seed: int = 1, names: list[str] = NAMES) -> list[CycleFaults]:
    schedule = FaultSchedule(faults, names, seed)
    return [schedule.advance_to(cycle) for cycle in range(1, cycles + 1)]


def agents_down(history: list[CycleFaults]) -> list[set[int]]:
    """Return the agents that are down after each turn, after checking that each kill and start changes something."""
    results, now = [], set[int]()
    for cycle_faults in history:
        assert not now & set(cycle_faults.agents_to_kill)
        assert now >= set(cycle_faults.agents_to_restart)
        now = (now | set(cycle_faults.agents_to_kill)) - set(cycle_faults.agents_to_restart)
        results.append(now)
    return results


def test_a_share_is_killed_and_part_of_it_restarts() -> None:
    history = fault_history(Faults.parse(["kill=0.5@cycle:10", "restart=0.6@cycle:20"]))
    assert [len(gone) for gone in agents_down(history)] == [0] * 9 + [10] * 10 + [4] * 21
    assert [cycle_faults.notes for cycle_faults in history if cycle_faults.notes] == [
        ("cycle 10: killed " + ", ".join(NAMES[index] for index in history[9].agents_to_kill),),
        ("cycle 20: restarted " + ", ".join(NAMES[index] for index in history[19].agents_to_restart),),
    ]
    assert history[9].agents_to_kill != fault_history(Faults.parse(["kill=0.5@cycle:10"]), seed=2)[9].agents_to_kill


def test_a_partition_begins_and_ends_with_devices_on_both_sides() -> None:
    history = fault_history(Faults.parse(["partition=0.3@cycle:5-8"]))
    assert [len(cycle_faults.cut_off) for cycle_faults in history] == [0] * 4 + [6] * 3 + [0] * 33
    assert len({cycle_faults.cut_off for cycle_faults in history}) == 2
    assert history[7].notes == ("cycle 8: the two sides are connected again",)


def test_skipped_cycles_lose_no_events() -> None:
    words = ["kill=0.5@cycle:10", "restart=1@cycle:20", "partition=0.3@cycle:5-8", "churn=lognormal(2,1)"]
    faults = Faults.parse(words)
    full_history, schedule = fault_history(faults), FaultSchedule(faults, NAMES, 1)
    sparse_history = [schedule.advance_to(cycle) for cycle in (7, 15, 33)]
    assert agents_down(sparse_history) == [agents_down(full_history)[cycle - 1] for cycle in (7, 15, 33)]
    assert [cycle_faults.cut_off for cycle_faults in sparse_history] == [
        full_history[cycle - 1].cut_off for cycle in (7, 15, 33)
    ]
    assert [len(cycle_faults.notes) for cycle_faults in sparse_history] == [1, 2, 1]


def test_log_normal_churn_keeps_nine_in_ten_online_and_changes() -> None:
    history = fault_history(Faults.parse(["churn=lognormal(2,1)"]), 400, names=[str(index) for index in range(200)])
    share = sum(map(len, agents_down(history))) / (400 * 200)
    assert share == pytest.approx(0.1, abs=0.03)
    assert sum(len(cycle_faults.agents_to_kill) for cycle_faults in history) > 1000
    assert history == fault_history(
        Faults.parse(["churn=lognormal(2,1)"]), 400, names=[str(index) for index in range(200)]
    )


def test_churn_trace_is_followed_and_killed_devices_stay_down() -> None:
    trace = (Absence(0, 3, 6), Absence(0, 5, 8), Absence(7, 40, 41))
    assert [0 in gone for gone in agents_down(fault_history(Faults(churn=trace)))] == [False] * 2 + [True] * 5 + [
        False
    ] * 33
    assert [7 in gone for gone in agents_down(fault_history(Faults(churn=trace)))] == [False] * 39 + [True]
    everybody = Faults(churn=trace, kill=Faults.parse(["kill=1@cycle:4"]).kill)
    assert [len(gone) for gone in agents_down(fault_history(everybody))] == [0, 0, 1] + [20] * 37


@pytest.mark.parametrize(
    "faults, cycle, will_restart",
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
def test_schedule_predicts_restarts(faults: Faults, cycle: int, will_restart: bool) -> None:
    assert FaultSchedule(faults, NAMES, 0).will_restart_after(cycle) is will_restart
