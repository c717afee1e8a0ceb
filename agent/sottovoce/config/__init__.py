"""The configuration of an agent: one typed schema, and errors that name the line and the remedy."""

from sottovoce.config.feed import FeedSection, FormatSection, MeterSection, address_of, filled
from sottovoce.config.identity import IdentitySection
from sottovoce.config.loading import checked, load
from sottovoce.config.membership import MembershipSection
from sottovoce.config.observe import ObserveSection
from sottovoce.config.schema import (
    AgentConfig,
    AgentSection,
    DataSection,
    LearnerSection,
    LedgerSection,
    PrivacySection,
    VaultSection,
)
from sottovoce.config.transport import MqttSection, PeerSection, TransportSection

__all__ = [
    "AgentConfig",
    "AgentSection",
    "DataSection",
    "FeedSection",
    "FormatSection",
    "IdentitySection",
    "LearnerSection",
    "LedgerSection",
    "MembershipSection",
    "MeterSection",
    "MqttSection",
    "ObserveSection",
    "PeerSection",
    "PrivacySection",
    "TransportSection",
    "VaultSection",
    "address_of",
    "checked",
    "filled",
    "load",
]
