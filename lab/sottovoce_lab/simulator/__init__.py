"""Simulate real agents on a virtual clock, with network topologies and fault injection."""

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.faults import Faults, message_faults
from sottovoce_lab.simulator.mixing import describe_mixing
from sottovoce_lab.simulator.simulation import Simulation
from sottovoce_lab.simulator.topology import NEWSCAST, TOPOLOGIES, check_topology, out_peers
from sottovoce_lab.simulator.trace import EventObserver, Trace

__all__ = [
    "NEWSCAST",
    "TOPOLOGIES",
    "Device",
    "EventObserver",
    "Faults",
    "Simulation",
    "Trace",
    "check_topology",
    "describe_mixing",
    "message_faults",
    "out_peers",
]
