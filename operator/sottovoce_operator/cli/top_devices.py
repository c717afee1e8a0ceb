"""JSON-ready snapshots of devices, taken through their control sockets: `sottovoce.top/1`."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.cli import workstation
from sottovoce.node.control import ask_status

SCHEMA = "sottovoce.top/1"
_STATUS_SECONDS = 2.0
_MAX_CONNECTIONS = 8
_RATE_COUNTERS = {"sent_per_s": "messages", "received_per_s": "received", "wire_bytes_per_s": "wire_bytes"}


@dataclass(slots=True)
class Devices:
    """Devices that are observed repeatedly.

    Args:
        states: state directories of the devices, in display order.
        testbed: directory of their testbed; None for a single device.
    """

    states: Sequence[Path]
    testbed: Path | None = None
    _previous: dict[Path, tuple[float, dict[str, int]]] = field(default_factory=dict)

    def take_snapshot(self) -> dict[str, Any]:
        """Return a snapshot of all devices, with rates since the previous snapshot; the first snapshot has no rates."""
        with ThreadPoolExecutor(max_workers=_MAX_CONNECTIONS) as pool:
            statuses = list(pool.map(partial(ask_status, timeout=_STATUS_SECONDS), self.states))
        return {
            "schema": SCHEMA,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "testbed": None if self.testbed is None else {"directory": str(self.testbed), **_progress(self.testbed)},
            "devices": [self._device_facts(state, status) for state, status in zip(self.states, statuses, strict=True)],
        }

    def _device_facts(self, state: Path, status: dict[str, Any] | None) -> dict[str, Any]:
        """Return the facts about one device, or only its name and directory if the device is away."""
        facts: dict[str, Any] = {"name": state.absolute().name, "state_directory": str(state), "away": status is None}
        if status is None:
            self._previous.pop(state, None)
            return facts
        privacy = status["privacy"]
        spent, total = privacy["spent_epsilon"], privacy["epsilon"]
        has_budget = spent is not None and total is not None
        return {
            **facts,
            "id": status["id"],
            "fleet": status["fleet"],
            "state": status["state"],
            "resting_until": status.get("resting_until"),
            "learner": status["learner"],
            "cycle": status["cycle"],
            "steps_done": status["steps_done"],
            "steps": status["steps"],
            "epsilon": total,
            "spent_epsilon": spent,
            "left_epsilon": max(0.0, total - spent) if has_budget else None,
            "delta": privacy["delta"],
            "status": privacy["status"],
            "unit": privacy["unit"],
            "releases": privacy["releases"],
            "peers": [
                {"id": peer["id"], "address": peer["address"], "failing": bool(peer["failures_in_a_row"])}
                for peer in status["peers"]
            ],
            "other_tasks": status["task"]["others"],
            "waiting": status["waiting"],
            "trouble": status["transport"]["trouble"],
            "messages": status["traffic"]["messages"],
            "received": status["traffic"]["received"],
            "wire_bytes": status["traffic"]["wire_bytes"],
            **self._rates(state, status["traffic"]),
            "rss_mib": status["resources"]["rss_mib"],
            "cpu_s": status["resources"]["cpu_s"],
        }

    def _rates(self, state: Path, traffic: dict[str, int]) -> dict[str, float | None]:
        """Return rates per second since the last snapshot; None for the first snapshot and after an agent's restart."""
        now = time.monotonic()
        previous = self._previous.get(state)
        self._previous[state] = now, traffic
        rates: dict[str, float | None] = {}
        for rate, counter in _RATE_COUNTERS.items():
            increase = -1 if previous is None else traffic[counter] - previous[1][counter]
            if previous is None or increase < 0:
                rates[rate] = None
            else:
                rates[rate] = round(increase / max(now - previous[0], 1e-3), 3)
        return rates


def _progress(directory: Path) -> dict[str, Any]:
    """Return whether the testbed exists, and its harness's newest measurement on held-out records."""
    measured = workstation.load_module("testbed.running", "top --testbed").read_progress(directory)
    return {"exists": directory.is_dir(), "measured": measured}
