"""Transports: they carry bytes from one authenticated device to another, and nothing else."""

import os

from sottovoce.transport.transport import DeliveryFailed, Listener, Peer, Receive, Transport, is_direct

# gRPC's library logs every failed handshake itself; a link reports it once, with cause and remedy.
# The library reads this variable on first use; set it to another value to debug gRPC.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__all__ = ["DeliveryFailed", "Listener", "Peer", "Receive", "Transport", "is_direct"]
