"""Catalogue of an agent's metrics and their output. Only an agent with monitoring enabled imports this module.

All metrics describe public events, and none is computed from records; docs/reference/metrics.md explains how this is
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
"""Metric values by name, or by label for a metric with a label. None if there is currently no value."""

OTHER = "other"
_MAX_LABELS = 40
_LABEL = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Described:
    """Description of a metric.

    Attributes:
        kind: counter or gauge.
        help: help text of the metric.
        label: name of its only label; empty if the metric has no label.
    """

    kind: Literal["counter", "gauge"]
    help: str
    label: str = ""


CATALOGUE: Mapping[str, Described] = {
    "sottovoce_build_info": Described("gauge", "1 for the running version.", "version"),
    "sottovoce_fault": Described("gauge", "1 for the fault that prevents the agent from working.", "kind"),
    "sottovoce_needs_a_person": Described("gauge", "1 while that fault does not resolve itself, else 0."),
    "sottovoce_uptime_seconds": Described("gauge", "Time since monitoring of this agent started."),
    "sottovoce_learner_info": Described("gauge", "1 for the running learner.", "learner"),
    "sottovoce_learner_phase": Described("gauge", "1 for the learner's current phase, 0 for the other.", "phase"),
    "sottovoce_learner_period_seconds": Described("gauge", "learner.period."),
    "sottovoce_learner_cycles_total": Described("counter", "Learner cycles over all starts."),
    "sottovoce_learner_steps_done": Described("gauge", "Private steps finished."),
    "sottovoce_learner_steps_planned": Described("gauge", "Private steps planned."),
    "sottovoce_privacy_info": Described("gauge", "1 for the status of the guarantee.", "status"),
    "sottovoce_privacy_epsilon_spent": Described(
        "gauge", "ε charged by the ledger to the unit with the highest charge."
    ),
    "sottovoce_privacy_epsilon_limit": Described("gauge", "ε for which the ledger was created."),
    "sottovoce_privacy_delta": Described("gauge", "δ for which the ledger was created."),
    "sottovoce_privacy_exhausted": Described("gauge", "1 when the vault has permanently refused, else 0."),
    "sottovoce_privacy_charges_total": Described("counter", "Releases charged over all starts."),
    "sottovoce_privacy_releases_total": Described("counter", "Releases made over all starts."),
    "sottovoce_ledger_bytes": Described("gauge", "Size of the ledger's files."),
    "sottovoce_ledger_written_today_bytes": Described(
        "gauge", "Bytes written by the ledger on the day of its last charge."
    ),
    "sottovoce_ledger_written_today_limit_bytes": Described("gauge", "ledger.bytes_per_day."),
    "sottovoce_ledger_echoes": Described("gauge", "Peers that know no newer ledger of this device."),
    "sottovoce_ledger_echoes_needed": Described("gauge", "Peers that must confirm that before anything is released."),
    "sottovoce_messages_sent_total": Described("counter", "Messages passed to a transport for the first time."),
    "sottovoce_messages_retried_total": Described("counter", "Messages passed to a transport again."),
    "sottovoce_messages_received_total": Described("counter", "Messages from peers that were applied."),
    "sottovoce_messages_duplicate_total": Described("counter", "Messages received that had already been applied."),
    "sottovoce_messages_refused_total": Described("counter", "Messages refused, with no effect.", "reason"),
    "sottovoce_messages_since_received_seconds": Described(
        "gauge", "Time since the last message from a peer, or since the start."
    ),
    "sottovoce_deliveries_failed_total": Described("counter", "Attempts to reach a peer that failed.", "cause"),
    "sottovoce_shares_unconfirmed": Described("gauge", "Messages in transit, not yet confirmed."),
    "sottovoce_payload_bytes_total": Described("counter", "Payload of the messages sent, without envelopes."),
    "sottovoce_wire_bytes_total": Described("counter", "Bytes passed to transports, before TLS."),
    "sottovoce_transport_up": Described(
        "gauge", "1 while peers can reach this device through this transport, else 0.", "transport"
    ),
    "sottovoce_connections_accepted_total": Described("counter", "Connections accepted, or devices introduced."),
    "sottovoce_connections_refused_total": Described("counter", "Connections and introductions refused."),
    "sottovoce_identity_duplicates_total": Described("counter", "Number of times another device used this identity."),
    "sottovoce_peers_known": Described("gauge", "Devices in the view; with static sampling, those listed."),
    "sottovoce_peers_linked": Described("gauge", "Devices to which the learner may send."),
    "sottovoce_peers_failing": Described("gauge", "Linked devices that the last attempt did not reach."),
    "sottovoce_peers_of_another_task": Described("gauge", "Devices with which no model is exchanged."),
    "sottovoce_view_exchanges_total": Described("counter", "View exchanges with peers.", "outcome"),
    "sottovoce_view_records_refused_total": Described("counter", "Device records refused.", "reason"),
    "sottovoce_revocation_version": Described("gauge", "Version of the revocation list; 0 without one."),
    "sottovoce_revoked_devices": Described("gauge", "Devices that the fleet has revoked."),
    "sottovoce_certificate_expires_timestamp_seconds": Described("gauge", "When the certificate expires."),
    "sottovoce_certificate_renewal_timestamp_seconds": Described("gauge", "When the certificate should be renewed."),
    "sottovoce_waits": Described("gauge", "Current waits.", "kind"),
    "sottovoce_waits_overdue": Described("gauge", "Current waits that should have ended, which is a defect.", "kind"),
    "sottovoce_waits_begun_total": Described("counter", "Waits started.", "kind"),
    "sottovoce_wait_seconds_total": Described("counter", "Time spent in waits.", "kind"),
    "sottovoce_wait_longest_seconds": Described("gauge", "Age of the oldest wait.", "kind"),
    "sottovoce_event_loop_tasks": Described("gauge", "Tasks in the event loop."),
    "sottovoce_written_today_bytes": Described("gauge", "Bytes written to disks today by this process."),
    "sottovoce_written_today_limit_bytes": Described("gauge", "agent.bytes_per_day."),
    "sottovoce_process_resident_memory_bytes": Described("gauge", "Resident memory of the process."),
    "sottovoce_process_memory_limit_bytes": Described("gauge", "Memory limit of the process."),
    "sottovoce_process_cpu_seconds_total": Described("counter", "Processor time used."),
    "sottovoce_state_free_bytes": Described("gauge", "Free bytes on the state directory's file system."),
}


def page(values: Values) -> Page:
    """Return a page of metrics in the Prometheus text format.

    Args:
        values: values of metrics in the catalogue.

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
                raise InternalError(f"{name} is unknown or has the wrong labels: this is a bug; please report it")
            kind = CounterMetricFamily if described.kind == "counter" else GaugeMetricFamily
            if isinstance(value, Mapping):
                family = kind(name, described.help, labels=[described.label])
                for label, one in limit_labels(value).items():
                    family.add_metric([label], one)
            else:
                family = kind(name, described.help, value=value)
            yield family


def limit_labels(values: Mapping[str, float]) -> Mapping[str, float]:
    """Return the values for a bounded number of labels, with all other values summed under `other`."""
    kept: dict[str, float] = {}
    for label, value in sorted(values.items()):
        fits = _LABEL.fullmatch(label) is not None and len(kept) < _MAX_LABELS
        name = label if fits else OTHER
        kept[name] = kept.get(name, 0.0) + value
    return kept
