"""Catalogue and Prometheus output of an agent's metrics. Only an agent with monitoring enabled imports this module.

An address that other machines can reach serves only metrics of public events; docs/reference/metrics.md states what the
other metrics may reveal, and where they are served.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from sottovoce.errors import InternalError
from sottovoce.ops.page import Page

Values = Mapping[str, float | Mapping[str, float] | None]
"""Values by metric name; a mapping from label to value for a labelled metric, and None if there is no value now."""

OTHER = "other"
_MAX_LABELS = 96  # as many as a day's profile has quarters of an hour
_LABEL = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A metric's entry in the catalogue.

    Attributes:
        kind: counter or gauge.
        help: help text of the metric.
        label: name of its only label; empty if the metric has no label.
    """

    kind: Literal["counter", "gauge"]
    help: str
    label: str = ""


CATALOGUE: Mapping[str, Entry] = {
    "sottovoce_result_members": Entry("gauge", "Homes in the newest result of the fleet's secure sums."),
    "sottovoce_result_signatures": Entry("gauge", "Members that have signed that result, as far as this device knows."),
    "sottovoce_result_signatures_required": Entry("gauge", "Signatures that prove that result."),
    "sottovoce_result_noise_deviation": Entry("gauge", "Standard deviation of the noise in each number of that mean."),
    "sottovoce_result_value": Entry("gauge", "A value of that mean, of at most 96.", "position"),
    "sottovoce_build_info": Entry("gauge", "1 for the running version.", "version"),
    "sottovoce_fault": Entry("gauge", "1 for the fault that prevents the agent from working.", "kind"),
    "sottovoce_needs_a_person": Entry("gauge", "1 while that fault needs a person, else 0."),
    "sottovoce_uptime_seconds": Entry("gauge", "Time since monitoring of this agent started."),
    "sottovoce_learner_info": Entry("gauge", "1 for the running learner.", "learner"),
    "sottovoce_learner_phase": Entry("gauge", "1 for the learner's current phase, 0 for the other.", "phase"),
    "sottovoce_learner_period_seconds": Entry("gauge", "learner.period."),
    "sottovoce_learner_cycles_total": Entry("counter", "Learner cycles over all starts."),
    "sottovoce_learner_steps_done": Entry("gauge", "Private steps finished."),
    "sottovoce_learner_steps_planned": Entry("gauge", "Private steps planned."),
    "sottovoce_privacy_info": Entry("gauge", "1 for the status of the guarantee.", "status"),
    "sottovoce_privacy_epsilon_spent": Entry(
        "gauge", "Highest ε that the current task has charged to any privacy unit."
    ),
    "sottovoce_privacy_epsilon_limit": Entry("gauge", "ε of the current task's budget; without a task, the ledger's."),
    "sottovoce_privacy_delta": Entry("gauge", "δ of the same budget."),
    "sottovoce_privacy_exhausted": Entry("gauge", "1 if the vault has permanently refused further queries, else 0."),
    "sottovoce_privacy_charges_total": Entry("counter", "Releases charged over all starts."),
    "sottovoce_privacy_releases_total": Entry("counter", "Releases made over all starts."),
    "sottovoce_ledger_epsilon_spent": Entry(
        "gauge", "Highest ε that all tasks together have charged to any privacy unit of the ledger."
    ),
    "sottovoce_ledger_bytes": Entry("gauge", "Size of the ledger's files."),
    "sottovoce_ledger_written_today_bytes": Entry(
        "gauge", "Bytes written by the ledger on the day of its last charge."
    ),
    "sottovoce_ledger_written_today_limit_bytes": Entry("gauge", "ledger.bytes_per_day."),
    "sottovoce_ledger_echoes": Entry("gauge", "Peers that know of no newer ledger of this device."),
    "sottovoce_ledger_echoes_needed": Entry("gauge", "Peers that must confirm that before anything is released."),
    "sottovoce_messages_sent_total": Entry("counter", "Messages passed to a transport for the first time."),
    "sottovoce_messages_retried_total": Entry("counter", "Messages passed to a transport again."),
    "sottovoce_messages_received_total": Entry("counter", "Messages from peers that were applied."),
    "sottovoce_messages_duplicate_total": Entry("counter", "Messages received that had already been applied."),
    "sottovoce_messages_refused_total": Entry("counter", "Messages refused, with no effect.", "reason"),
    "sottovoce_messages_since_received_seconds": Entry(
        "gauge", "Time since the last message from a peer, or since the start."
    ),
    "sottovoce_deliveries_failed_total": Entry("counter", "Attempts to reach a peer that failed.", "cause"),
    "sottovoce_shares_unconfirmed": Entry("gauge", "Messages in transit, not yet confirmed."),
    "sottovoce_payload_bytes_total": Entry("counter", "Payload of the messages sent, without envelopes."),
    "sottovoce_wire_bytes_total": Entry("counter", "Bytes passed to transports, before TLS."),
    "sottovoce_transport_up": Entry(
        "gauge", "1 while peers can reach this device through this transport, else 0.", "transport"
    ),
    "sottovoce_connections_accepted_total": Entry("counter", "Connections accepted, or devices introduced."),
    "sottovoce_connections_refused_total": Entry("counter", "Connections and introductions refused."),
    "sottovoce_identity_duplicates_total": Entry("counter", "Number of times another device used this identity."),
    "sottovoce_peers_known": Entry("gauge", "Devices in the view; with static sampling, those listed."),
    "sottovoce_peers_linked": Entry("gauge", "Devices to which the learner may send."),
    "sottovoce_peers_failing": Entry("gauge", "Linked devices that the last attempt did not reach."),
    "sottovoce_peers_of_another_task": Entry("gauge", "Devices with which no model is exchanged."),
    "sottovoce_view_exchanges_total": Entry("counter", "View exchanges with peers.", "outcome"),
    "sottovoce_view_records_refused_total": Entry("counter", "Device records refused.", "reason"),
    "sottovoce_revocation_version": Entry("gauge", "Version of the revocation list; 0 without one."),
    "sottovoce_revoked_devices": Entry("gauge", "Devices that the fleet has revoked."),
    "sottovoce_certificate_expires_timestamp_seconds": Entry("gauge", "When the certificate expires."),
    "sottovoce_certificate_renewal_timestamp_seconds": Entry("gauge", "When the certificate should be renewed."),
    "sottovoce_waits": Entry("gauge", "Current waits.", "kind"),
    "sottovoce_waits_overdue": Entry("gauge", "Current waits that should have ended, which is a defect.", "kind"),
    "sottovoce_waits_begun_total": Entry("counter", "Waits started.", "kind"),
    "sottovoce_wait_seconds_total": Entry("counter", "Time spent in waits.", "kind"),
    "sottovoce_wait_longest_seconds": Entry("gauge", "Age of the oldest wait.", "kind"),
    "sottovoce_event_loop_tasks": Entry("gauge", "Tasks in the event loop."),
    "sottovoce_written_today_bytes": Entry("gauge", "Bytes written to disks today by this process."),
    "sottovoce_written_today_limit_bytes": Entry("gauge", "agent.bytes_per_day."),
    "sottovoce_resting_until_timestamp_seconds": Entry(
        "gauge", "End of the device's rest after its write quota is used up; 0 if it is not resting."
    ),
    "sottovoce_process_resident_memory_bytes": Entry("gauge", "Resident memory of the process."),
    "sottovoce_process_memory_limit_bytes": Entry("gauge", "Memory limit of the process."),
    "sottovoce_process_cpu_seconds_total": Entry("counter", "Processor time used."),
    "sottovoce_state_free_bytes": Entry("gauge", "Free bytes on the state directory's file system."),
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
            entry = CATALOGUE.get(name)
            if entry is None or isinstance(value, Mapping) != bool(entry.label):
                raise InternalError(f"{name} is unknown or has the wrong labels: this is a bug; please report it")
            family_type = CounterMetricFamily if entry.kind == "counter" else GaugeMetricFamily
            if isinstance(value, Mapping):
                family = family_type(name, entry.help, labels=[entry.label])
                for label, number in limit_labels(value).items():
                    family.add_metric([label], number)
            else:
                family = family_type(name, entry.help, value=value)
            yield family


def limit_labels(values: Mapping[str, float]) -> Mapping[str, float]:
    """Return the values for a bounded number of labels, with all other values summed under `other`."""
    merged_values: dict[str, float] = {}
    for label, value in sorted(values.items()):
        fits = _LABEL.fullmatch(label) is not None and len(merged_values) < _MAX_LABELS
        name = label if fits else OTHER
        merged_values[name] = merged_values.get(name, 0.0) + value
    return merged_values
