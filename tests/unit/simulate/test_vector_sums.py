"""Golf by push-sum in arrays: each device's contribution to a mean, from the shares' senders and recipients."""

import numpy as np
import pytest
from sottovoce.data import DataSet, Records
from sottovoce.errors import ConfigError
from sottovoce_lab.experiments.fleet import assemble
from sottovoce_lab.experiments.models import SumModels
from sottovoce_lab.experiments.run import run_fleet
from sottovoce_lab.experiments.settings import build_settings
from sottovoce_lab.simulator.vector import Engine, MixedSums
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments

from tests.support.devices import draw_records

NODES = 17


def test_mean_weights_match_simulated_push_sum() -> None:
    state = MixedSums(NODES, 10)
    engine = Engine(state, seed=3)
    masses = np.eye(NODES)  # each device's part of each other's mass
    for _ in range(6):
        engine.step()
        recipients = state._recipients[-1]
        assert (recipients != np.arange(NODES)).all(), "every device sends"
        halves = masses / 2
        masses = halves.copy()
        np.add.at(masses, recipients, halves)
        for device in range(NODES):
            assert state.mean_weights(device) == pytest.approx(masses[device] / masses[device].sum(), abs=1e-15)
    assert state.updates == 6 * NODES


def test_a_fleet_ends_with_the_model_for_all_records() -> None:
    features, labels = draw_records(260, 3)
    data = DataSet("some", Records(features, labels), 3, (np.zeros(4), np.ones(4)), None)
    fleet = assemble(
        build_settings({"agents": 200, "cycles": 40, "evaluate.every": 20, "learner.mixing": "push-sum"}, "here"), data
    )
    document, _ = run_fleet(fleet, Watcher())
    packed, values = PackedMoments(fleet.scheme, 1), fleet.released_values()
    everything = packed.model(packed.pack(fleet.scheme.moments(values)))
    assert document["traffic"]["messages"] == 200 * 40
    state = MixedSums(200, 1)
    engine = Engine(state, seed=1)
    for _ in range(40):
        engine.step()
    models, _ = SumModels(state, packed, values).for_devices(np.arange(3))
    assert models.reshape(3, -1) == pytest.approx(np.tile(everything, (3, 1)), abs=3e-4)


@pytest.mark.parametrize(
    "beside, words",
    [
        ({"learner.model": "pegasos"}, r"golf.*ridge"),
        ({"fidelity": "paper"}, r"golf.*ridge"),
        ({"faults.drop": 0.1}, "faults"),
    ],
)
def test_models_that_cannot_be_mixed_as_sums_are_refused(beside: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_settings({"learner.mixing": "push-sum", **beside}, "here")
