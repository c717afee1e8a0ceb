"""Real agents under a virtual clock: topologies, faults, and the simulation that drives them."""

from sottovoce_lab.simulate.device import Device
from sottovoce_lab.simulate.faults import Faults, on_messages
from sottovoce_lab.simulate.mixing import mixing_facts
from sottovoce_lab.simulate.simulation import Simulation
from sottovoce_lab.simulate.topology import NEWSCAST, TOPOLOGIES, known, out_peers
from sottovoce_lab.simulate.trace import Trace, Witness

__all__ = [
    "NEWSCAST",
    "TOPOLOGIES",
    "Device",
    "Faults",
    "Simulation",
    "Trace",
    "Witness",
    "known",
    "mixing_facts",
    "on_messages",
    "out_peers",
]
