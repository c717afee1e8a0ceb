"""The transports of a device, from its configuration."""

from sottovoce.config import AgentConfig
from sottovoce.identity import Identity, verify_peer_certificate
from sottovoce.transport import Transport
from sottovoce.transport.carrier import Carrier


def carrier_of(config: AgentConfig, identity: Identity, incarnation: int) -> Carrier:
    """Every transport that `transport.use` names, as one.

    Args:
        config: of the agent.
        identity: this device.
        incarnation: how often the device has started.

    Raises:
        SottovoceError: one of them cannot be used.
    """
    return Carrier([_named(name, config, identity, incarnation) for name in config.transport.use])


def _named(name: str, config: AgentConfig, identity: Identity, incarnation: int) -> Transport:
    """A transport, whose libraries nobody else holds in memory."""
    if name == "grpc":
        from sottovoce.transport.grpc import GrpcTransport

        return GrpcTransport(
            listen=config.transport.listen,
            key=identity.tls_key_pem,
            chain=identity.tls_cert_pem,
            roots=identity.ca_pem,
            expires=identity.not_after,
            authenticate=lambda pem: verify_peer_certificate(pem, identity),
            reconnect=config.transport.backoff_max,
        )
    raise AssertionError(name)
