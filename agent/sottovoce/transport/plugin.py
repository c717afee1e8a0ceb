"""Transports that other packages bring, as entry points of the group `sottovoce.transports`."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.identity import Trust
from sottovoce.transport.transport import Transport


@dataclass(frozen=True, slots=True)
class TransportContext:
    """Inputs for constructing a plug-in transport.

    Attributes:
        trust: this device's identity, and whom it trusts; `trust.authenticate(pem)` is the node id of a peer's
            certificate.
        settings: table `[transport.plugins.NAME]` of the transport; `announce` is this device's own address.
        certificate: path to this device's TLS certificate (PEM), which is renewed periodically.
        key: path to this device's TLS private key (PEM).
        longest_pause: longest pause between attempts to connect, in seconds.
    """

    trust: Trust
    settings: Mapping[str, Any]
    certificate: Path
    key: Path
    longest_pause: float

    def server_tls(self) -> ssl.SSLContext:
        """Return TLS 1.3 for a server that requires its clients' certificates to be of this fleet."""
        return self._tls(ssl.PROTOCOL_TLS_SERVER)

    def client_tls(self) -> ssl.SSLContext:
        """Return TLS 1.3 for a client that connects with `server_hostname=peer.name`."""
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
    """Transport of another package.

    It must deliver bytes unaltered and know who sent them: TLS with the device's certificate does both.

    Attributes:
        make: function that makes the transport, once for each start of the agent.
    """

    make: Callable[[TransportContext], Transport]
