"""An agent's configuration: a typed schema, and errors that report the line and the remedy."""

from sottovoce.config.feed import FeedSection, FormatSection, MeterSection, fill_placeholders, parse_broker_url
from sottovoce.config.loading import config_from_tables, learner_settings, load
from sottovoce.config.schema import AgentConfig, WholeConfig
from sottovoce.config.sections import (
    AgentSection,
    CellSection,
    DataSection,
    IdentitySection,
    LedgerSection,
    MembershipSection,
    ObserveSection,
    PrivacySection,
    VaultSection,
)
from sottovoce.config.task_config import config_for_task, read_proposed_task
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
    "config_for_task",
    "config_from_tables",
    "fill_placeholders",
    "learner_settings",
    "load",
    "parse_broker_url",
    "read_proposed_task",
]
