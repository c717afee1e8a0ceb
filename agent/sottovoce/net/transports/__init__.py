"""Transports, which deliver bytes from one authenticated device to another without interpreting them."""

import os

from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer, Receive, Transport, is_direct

# The gRPC library logs every failed handshake, but the agent already reports each failure with its cause and remedy.
# The library reads this variable on first use; set it to another value to debug gRPC.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__all__ = ["DeliveryFailed", "Listener", "Peer", "Receive", "Transport", "is_direct"]
