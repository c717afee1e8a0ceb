"""The configuration of an agent: one typed schema, and errors that name the line and the remedy."""

from sottovoce.config.learners import LEARNERS, LearnerInfo, relation_of
from sottovoce.config.loading import checked, load
from sottovoce.config.schema import (
    AgentConfig,
    AgentSection,
    DataSection,
    LearnerSection,
    LedgerSection,
    MembershipSection,
    PrivacySection,
    VaultSection,
)
from sottovoce.config.transport import MqttSection, PeerSection, TransportSection

__all__ = [
    "LEARNERS",
    "AgentConfig",
    "AgentSection",
    "DataSection",
    "LearnerInfo",
    "LearnerSection",
    "LedgerSection",
    "MembershipSection",
    "MqttSection",
    "PeerSection",
    "PrivacySection",
    "TransportSection",
    "VaultSection",
    "checked",
    "load",
    "relation_of",
]
