"""The configuration of an agent: one typed schema, and errors that name the line and the remedy."""

from sottovoce.config.loading import checked, load
from sottovoce.config.schema import (
    NEIGHBOURING,
    AgentConfig,
    AgentSection,
    DataSection,
    LearnerSection,
    MembershipSection,
    PeerSection,
    PrivacySection,
    TransportSection,
)

__all__ = [
    "NEIGHBOURING",
    "AgentConfig",
    "AgentSection",
    "DataSection",
    "LearnerSection",
    "MembershipSection",
    "PeerSection",
    "PrivacySection",
    "TransportSection",
    "checked",
    "load",
]
