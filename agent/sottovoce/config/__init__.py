"""The configuration of an agent: one typed schema, and errors that name the line and the remedy."""

from sottovoce.config.feed import FeedSection, FormatSection, MeterSection, address_of, filled
from sottovoce.config.identity import IdentitySection
from sottovoce.config.loading import checked, learner_settings, load
from sottovoce.config.membership import MembershipSection
from sottovoce.config.observe import ObserveSection
from sottovoce.config.schema import (
    AgentConfig,
    AgentSection,
    CellSection,
    DataSection,
    LedgerSection,
    PrivacySection,
    VaultSection,
    WholeConfig,
)
from sottovoce.config.tasked import proposed, under
from sottovoce.config.transport import MqttSection, PeerSection, TransportSection

__all__ = [
    "AgentConfig",
    "AgentSection",
    "CellSection",
    "DataSection",
    "FeedSection",
    "FormatSection",
    "IdentitySection",
    "LedgerSection",
    "MembershipSection",
    "MeterSection",
    "MqttSection",
    "ObserveSection",
    "PeerSection",
    "PrivacySection",
    "TransportSection",
    "VaultSection",
    "WholeConfig",
    "address_of",
    "checked",
    "filled",
    "learner_settings",
    "load",
    "proposed",
    "under",
]
