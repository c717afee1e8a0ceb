"""Catalogue of an agent's metrics, and their output. Only an agent with monitoring imports this module.

All metrics count public events, and none is computed from records; docs/reference/metrics.md explains how this is
verified.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from sottovoce.errors import InternalError
from sottovoce.observe.answerer import Page

Values = Mapping[str, float | Mapping[str, float] | None]
"""Values of metrics by name; for a metric with a label, values by label. None if there is no value now."""

OTHER = "other"
_MAX_LABELS = 40
_LABEL = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Described:
    """A metric.

    Attributes:
        kind: counter or gauge.
        help: its description, for people.
        label: the one label it has; empty if it has none.
    """

    kind: Literal["counter", "gauge"]
    help: str
    label: str = ""


CATALOGUE: Mapping[str, Described] = {
    "sottovoce_build_info": Described("gauge", "1, for the version that runs.", "version"),
    "sottovoce_fault": Described("gauge", "1 for the fault because of which the agent is not at work.", "kind"),
    "sottovoce_needs_a_person": Described("gauge", "1 while that fault does not pass by itself, else 0."),
    "sottovoce_uptime_seconds": Described("gauge", "Time since this agent began to be watched."),
    "sottovoce_learner_info": Described("gauge", "1, for the learner that runs.", "learner"),
    "sottovoce_learner_phase": Described("gauge", "1 for the phase that the learner is in, 0 for the other.", "phase"),
    "sottovoce_learner_period_seconds": Described("gauge", "learner.period."),
    "sottovoce_learner_cycles_total": Described("counter", "Cycles of the learner, over all starts."),
    "sottovoce_learner_steps_done": Described("gauge", "Private steps finished."),
    "sottovoce_learner_steps_planned": Described("gauge", "Private steps planned."),
    "sottovoce_privacy_info": Described("gauge", "1, for the status of the guarantee.", "status"),
    "sottovoce_privacy_epsilon_spent": Described("gauge", "The ε charged to the unit charged most, by the ledger."),
    "sottovoce_privacy_epsilon_limit": Described("gauge", "The ε that the ledger was made for."),
    "sottovoce_privacy_delta": Described("gauge", "The δ that the ledger was made for."),
    "sottovoce_privacy_exhausted": Described("gauge", "1 when the vault has permanently refused, else 0."),
    "sottovoce_privacy_charges_total": Described("counter", "Releases paid for, over all starts."),
    "sottovoce_privacy_releases_total": Described("counter", "Releases made, over all starts."),
    "sottovoce_ledger_bytes": Described("gauge", "Size of the ledger's files."),
    "sottovoce_ledger_written_today_bytes": Described("gauge", "Written by the ledger on the day of its last charge."),
    "sottovoce_ledger_written_today_limit_bytes": Described("gauge", "ledger.bytes_per_day."),
    "sottovoce_ledger_echoes": Described("gauge", "Peers that know no newer ledger of this device."),
    "sottovoce_ledger_echoes_needed": Described("gauge", "Peers that must confirm that before anything is released."),
    "sottovoce_messages_sent_total": Described("counter", "Messages handed to a transport for the first time."),
    "sottovoce_messages_retried_total": Described("counter", "Messages handed over again."),
    "sottovoce_messages_received_total": Described("counter", "Messages of peers that were applied."),
    "sottovoce_messages_duplicate_total": Described("counter", "Messages that had been applied before."),
    "sottovoce_messages_refused_total": Described("counter", "Messages refused, with no effect.", "reason"),
    "sottovoce_messages_since_received_seconds": Described(
        "gauge", "Time since the last message of a peer, or since the start."
    ),
    "sottovoce_deliveries_failed_total": Described("counter", "Attempts to reach a peer that failed.", "cause"),
    "sottovoce_shares_unconfirmed": Described("gauge", "Messages on their way, not confirmed."),
    "sottovoce_payload_bytes_total": Described("counter", "Payload of the messages sent, without envelopes."),
    "sottovoce_wire_bytes_total": Described("counter", "Bytes handed to transports, before TLS."),
    "sottovoce_transport_up": Described(
        "gauge", "1 while peers can reach this device by this transport, else 0.", "transport"
    ),
    "sottovoce_connections_accepted_total": Described("counter", "Connections accepted, or devices introduced."),
    "sottovoce_connections_refused_total": Described("counter", "Connections and introductions refused."),
    "sottovoce_identity_duplicates_total": Described("counter", "Times that another device had this identity."),
    "sottovoce_peers_known": Described("gauge", "Devices in the view; with static sampling, those listed."),
    "sottovoce_peers_linked": Described("gauge", "Devices that the learner may send to."),
    "sottovoce_peers_failing": Described("gauge", "Linked devices that the last attempt did not reach."),
    "sottovoce_peers_of_another_task": Described("gauge", "Devices with which no model is exchanged."),
    "sottovoce_view_exchanges_total": Described("counter", "Exchanges of views with peers.", "outcome"),
    "sottovoce_view_records_refused_total": Described("counter", "Records of devices, refused.", "reason"),
    "sottovoce_revocation_version": Described("gauge", "Version of the revocation list; 0 without one."),
    "sottovoce_revoked_devices": Described("gauge", "Devices that the fleet has revoked."),
    "sottovoce_certificate_expires_timestamp_seconds": Described("gauge", "When the certificate expires."),
    "sottovoce_certificate_renewal_timestamp_seconds": Described("gauge", "When the certificate should be renewed."),
    "sottovoce_waits": Described("gauge", "Present waits.", "kind"),
    "sottovoce_waits_overdue": Described("gauge", "Present waits that should have ended: a defect.", "kind"),
    "sottovoce_waits_begun_total": Described("counter", "Waits begun.", "kind"),
    "sottovoce_wait_seconds_total": Described("counter", "Time spent in waits.", "kind"),
    "sottovoce_wait_longest_seconds": Described("gauge", "Age of the oldest wait.", "kind"),
    "sottovoce_event_loop_tasks": Described("gauge", "Tasks of the event loop."),
    "sottovoce_written_today_bytes": Described("gauge", "Written to disks today, by this process."),
    "sottovoce_written_today_limit_bytes": Described("gauge", "agent.bytes_per_day."),
    "sottovoce_process_resident_memory_bytes": Described("gauge", "Memory that the process holds."),
    "sottovoce_process_memory_limit_bytes": Described("gauge", "The most memory that the process may hold."),
    "sottovoce_process_cpu_seconds_total": Described("counter", "Processor time used."),
    "sottovoce_state_free_bytes": Described("gauge", "Free on the file system of the state directory."),
}


def page(values: Values) -> Page:
    """Return metrics as Prometheus reads them.

    Args:
        values: values of metrics of the catalogue.

    Raises:
        InternalError: if a metric is unknown, has an unexpected label, or lacks a required label.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Values(values))
    return Page(200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry))


class _Values(Collector):
    def __init__(self, values: Values) -> None:
        self._values = values

    def collect(self) -> Iterator[Metric]:
        for name, value in self._values.items():
            if value is None:
                continue
            described = CATALOGUE.get(name)
            if described is None or isinstance(value, Mapping) != bool(described.label):
                raise InternalError(f"{name} is not a metric of that kind: report this defect")
            kind = CounterMetricFamily if described.kind == "counter" else GaugeMetricFamily
            if isinstance(value, Mapping):
                family = kind(name, described.help, labels=[described.label])
                for label, one in limit_labels(value).items():
                    family.add_metric([label], one)
            else:
                family = kind(name, described.help, value=value)
            yield family


def limit_labels(values: Mapping[str, float]) -> Mapping[str, float]:
    """Return values by label, for a bounded number of labels; all others are added up as `other`."""
    kept: dict[str, float] = {}
    for label, value in sorted(values.items()):
        fits = _LABEL.fullmatch(label) is not None and len(kept) < _MAX_LABELS
        name = label if fits else OTHER
        kept[name] = kept.get(name, 0.0) + value
    return kept
