"""Real agents under a virtual clock: topologies, faults, and the simulation that drives them."""

from sottovoce.simulate.device import Device
from sottovoce.simulate.faults import Faults, on_messages
from sottovoce.simulate.mixing import mixing_facts
from sottovoce.simulate.simulation import Simulation
from sottovoce.simulate.topology import NEWSCAST, TOPOLOGIES, known, out_peers
from sottovoce.simulate.trace import Trace, Witness

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
