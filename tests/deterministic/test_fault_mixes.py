"""Any mix of faults that Hypothesis finds: the invariants hold after every event, and finally all devices converge."""

from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray
from sottovoce_lab.simulator import Faults, Simulation
from sottovoce_lab.simulator.absences import Absence
from sottovoce_lab.simulator.fault_schedule import FaultSchedule
from sottovoce_lab.simulator.faults import CycleEvent, CycleSpan, Sessions

from tests.deterministic.fleet import fleet

pytestmark = pytest.mark.slow

_STORM = 14  # cycles
_CALM = 60
_STEPS = 4


@dataclass(frozen=True)
class Mix:
    """Fleet, with its faults."""

    agents: int
    topology: str
    seed: int
    fanout: int
    faults: Faults


def _agent_faults(agents: int) -> st.SearchStrategy[Faults]:
    cycles, shares = st.integers(1, _STORM - 1), st.floats(0, 1)
    absence = st.builds(
        lambda agent, down, length: Absence(agent, down, min(_STORM, down + length)),
        *(st.integers(0, agents - 1), cycles, st.integers(1, 6)),
    )
    return st.builds(
        Faults,
        loss=st.floats(0, 0.5),
        duplicate=st.floats(0, 1),
        delay=st.just(0.5),
        delay_spread=st.floats(0, 0.5),
        reorder=st.floats(0, 0.8),
        partition=st.none() | st.builds(CycleSpan, shares, cycles, st.just(_STORM)),
        kill=st.builds(CycleEvent, shares, cycles),
        restart=st.just(CycleEvent(1.0, _STORM)),
        churn=st.none() | st.builds(Sessions, st.floats(0, 2), st.floats(0, 1)) | st.lists(absence).map(tuple),
    )


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    """Draw fleets of 6 to 12 agents, with their faults."""
    agents = draw(st.integers(6, 12))
    topology = draw(st.sampled_from(["exponential", "ring", "full"]))
    return Mix(agents, topology, draw(st.integers(0, 99)), draw(st.integers(1, 2)), draw(_agent_faults(agents)))


def run(mix: Mix) -> tuple[NDArray[np.float64], str]:
    """Run a storm, then a calm; return every agent's estimate, float64[n, P], and a description of the traffic."""
    devices = fleet(mix.agents, mix.topology, seed=mix.seed, steps=_STEPS, fanout=mix.fanout, spread=5.0)
    simulation = Simulation(devices.devices, faults=mix.faults, period=1.0, seed=mix.seed)
    names = [device.id for device in devices.devices]
    schedule = FaultSchedule(mix.faults, names, mix.seed)
    down: set[int] = set()
    simulation.start()
    for cycle in range(1, _STORM + 1):
        cycle_faults = schedule.advance_to(cycle)
        for place in cycle_faults.agents_to_kill:
            simulation.kill(names[place])
        for place in cycle_faults.agents_to_restart:
            simulation.restart(names[place])
        down = (down | set(cycle_faults.agents_to_kill)) - set(cycle_faults.agents_to_restart)
        simulation.cut_off = frozenset(names[place] for place in cycle_faults.cut_off)
        simulation.run_until(float(cycle))
    assert not simulation.cut_off
    for place in sorted(down):
        simulation.restart(names[place])
    simulation.run_until(_STORM + _CALM * (4.0 if mix.topology == "ring" else 1.0))
    devices.assert_conserved()
    devices.assert_one_release_per_slot()
    states = [device.core.state for device in devices.devices if device.core]
    assert [state.step for state in states] == [_STEPS] * mix.agents
    return np.array([state.numerator / state.weight for state in states]), repr(simulation.traffic)


@given(mixes())
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_any_mix_conserves_mass_and_ends_in_agreement(mix: Mix) -> None:
    estimates, traffic = run(mix)
    assert np.abs(estimates - estimates.mean(axis=0)).max() < 1e-3 * max(1.0, np.abs(estimates).max())
    again, same = run(mix)
    assert estimates.tobytes() == again.tobytes()
    assert traffic == same
