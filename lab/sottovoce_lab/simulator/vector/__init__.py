"""Vectorised simulation of whole fleets, with 10⁴ to 10⁶ one-record devices in synchronous cycles, as in PeerSim.

Devices use the same arithmetic as the agent (sottovoce.kernels). Only the clock, the network and churn are implemented
separately.
"""

from sottovoce_lab.simulator.vector.churn import Churn, LogNormal
from sottovoce_lab.simulator.vector.engine import Engine, Network
from sottovoce_lab.simulator.vector.models import TravellingModels
from sottovoce_lab.simulator.vector.peers import PEERS, Overlay, Peers, create_peers
from sottovoce_lab.simulator.vector.stores import MAX_STORES, RecordStores
from sottovoce_lab.simulator.vector.sums import MixedSums
from sottovoce_lab.simulator.vector.tracing import Tracer
from sottovoce_lab.simulator.vector.walk import GradientWalk, SequentialDescent

__all__ = [
    "MAX_STORES",
    "PEERS",
    "Churn",
    "Engine",
    "GradientWalk",
    "LogNormal",
    "MixedSums",
    "Network",
    "Overlay",
    "Peers",
    "RecordStores",
    "SequentialDescent",
    "Tracer",
    "TravellingModels",
    "create_peers",
]
