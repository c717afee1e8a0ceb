"""Simulate real agents on a virtual clock, with network topologies and fault injection."""

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.faults import Faults, message_faults
from sottovoce_lab.simulator.mixing import mixing_facts
from sottovoce_lab.simulator.simulation import Simulation
from sottovoce_lab.simulator.topology import NEWSCAST, TOPOLOGIES, check_topology, out_peers
from sottovoce_lab.simulator.trace import Trace, Witness

__all__ = [
    "NEWSCAST",
    "TOPOLOGIES",
    "Device",
    "Faults",
    "Simulation",
    "Trace",
    "Witness",
    "check_topology",
    "message_faults",
    "mixing_facts",
    "out_peers",
]
