"""Transports: they carry bytes from one authenticated device to another, and nothing else."""

import os

from sottovoce.transport.transport import DeliveryFailed, Listener, Peer, Receive, Transport, is_direct

# gRPC's library writes a line of its own for every failed handshake; a link says it once, with cause and remedy.
# The library reads this when it is first used, and anyone who debugs it may set it otherwise.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__all__ = ["DeliveryFailed", "Listener", "Peer", "Receive", "Transport", "is_direct"]
