"""TLS contexts with this device's certificate, for short test connections."""

import ssl
from pathlib import Path

from sottovoce.agent.assemble import state_files
from sottovoce.config import MqttSection
from sottovoce.errors import ConfigError, IdentityError
from sottovoce.identity import Identity, load
from sottovoce.identity.identity import FLEET_CERTIFICATE, TLS_CERTIFICATE, TLS_KEY


def device_credentials(state: Path, peers: list[str]) -> tuple[Identity, ssl.SSLContext]:
    """Return the device's identity, and a TLS context equivalent to its agent's for connections to other devices.

    Raises:
        IdentityError: if the device's keys and certificates cannot be used.
    """
    directory, _ = state_files(state)
    identity = load(directory, peers=peers, check_dates=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in gRPC, an issuer need not be a root
    try:
        context.load_verify_locations(cadata=identity.ca_pem.decode())
        context.load_cert_chain(directory / TLS_CERTIFICATE, directory / TLS_KEY)
    except (OSError, ValueError) as error:
        raise IdentityError(f"{directory}: the certificates cannot be used for TLS: enrol again") from error
    return identity, context


def broker_tls_context(section: MqttSection, state: Path) -> ssl.SSLContext | None:
    """Return a TLS context equivalent to the agent's for the fleet's broker; None for a broker without TLS.

    Raises:
        ConfigError: if the authority's file or the device's certificate cannot be used.
    """
    if not section.uses_tls:
        return None
    directory, _ = state_files(state)
    authority = section.ca or directory / FLEET_CERTIFICATE
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(directory / TLS_CERTIFICATE, directory / TLS_KEY)
    except OSError as error:
        raise ConfigError(f"transport.mqtt.ca: {authority} or the device's certificate cannot be used") from error
    return context
