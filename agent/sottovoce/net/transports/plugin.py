"""Transports that other packages provide as entry points in the group `sottovoce.transports`."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.fleet import Trust
from sottovoce.net.transports.transport import Transport


@dataclass(frozen=True, slots=True)
class TransportContext:
    """The inputs for constructing a plug-in transport.

    Attributes:
        trust: this device's identity and the devices that it trusts; `trust.authenticate(pem)` returns the node id in a
            peer's certificate.
        settings: the transport's `[transport.plugins.NAME]` table; `announce` in it is this device's own address.
        certificate: path to this device's TLS certificate (PEM), which is renewed periodically.
        key: path to this device's TLS private key (PEM).
        longest_pause: longest pause between connection attempts, in seconds.
    """

    trust: Trust
    settings: Mapping[str, Any]
    certificate: Path
    key: Path
    longest_pause: float

    def server_tls(self) -> ssl.SSLContext:
        """Return a TLS 1.3 context for a server that requires client certificates from this fleet."""
        return self._tls(ssl.PROTOCOL_TLS_SERVER)

    def client_tls(self) -> ssl.SSLContext:
        """Return a TLS 1.3 context for a client that connects with `server_hostname=peer.name`."""
        return self._tls(ssl.PROTOCOL_TLS_CLIENT)

    def _tls(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.trust.identity.ca_pem.decode("ascii"))
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True, slots=True)
class TransportPlugin:
    """A transport that another package provides.

    The transport must deliver bytes unaltered and authenticate their sender. TLS with the device's certificate does
    both.

    Attributes:
        make: function that creates the transport; called once each time the agent starts.
    """

    make: Callable[[TransportContext], Transport]
