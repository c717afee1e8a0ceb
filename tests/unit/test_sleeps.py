"""A test sleeps only where no event can be awaited: each such line is listed here, with its reason."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
REASONS = {
    "tests/chaos/test_agents_killed.py: time.sleep(fate.uniform(0.0, 0.4))": "kills at a random moment",
    "tests/chaos/test_broker_back.py: time.sleep(outage)": "an outage of this length",
    "tests/chaos/test_broker_killed.py: time.sleep(fate.uniform(0.0, 0.8))": "an outage of random length",
    "tests/chaos/test_broker_killed.py: time.sleep(fate.uniform(0.1, 0.8))": "kills at a random moment",
    "tests/chaos/vault_driver.py: time.sleep(rng.uniform(0, deadline))": "kills at a random moment",
    "tests/integration/test_agents_flooded.py: time.sleep(1.0)": "strangers connect; the flood has no later beginning",
    "tests/integration/test_broker_flooded.py: time.sleep(seconds)": "measures a rate over this time",
    "tests/integration/test_agents_flooded.py: time.sleep(0.25)": "paces the requests whose answers are timed",
    "tests/integration/test_discovery_sources.py: await asyncio.sleep(0.01)": "counts how often the loop turns",
    "tests/integration/test_hostile_broker.py: await asyncio.sleep(0.02)": "retries a delivery, as an agent does",
    "tests/integration/test_transports.py: await asyncio.sleep(0.1)": "retries a delivery, as an agent does",
    "tests/packaging/deb.py: time.sleep(15)": "longer than the watchdog's limit",
    "tests/packaging/disks.py: time.sleep(FAULT_SECONDS)": "a fault of this length",
    "tests/packaging/device.py: time.sleep(0.5)": "paces commands that start a process in a machine",
    "tests/packaging/endured.py: time.sleep(0.01)": "paces a flood",
    "tests/packaging/outlived.py: time.sleep(0.25)": "paces the requests whose answers are timed",
    "tests/packaging/outlived.py: time.sleep(2.0)": "strangers connect; the flood has no later beginning",
    "tests/packaging/outlived.py: time.sleep(FAULT_SECONDS)": "a fault of this length",
    "tests/support/floods.py: time.sleep(_TRICKLE_SECONDS)": "paces a slow sender",
    "tests/support/floods.py: time.sleep(_AGAIN_SECONDS)": "paces a flood",
    "tests/support/member_floods.py: time.sleep(_AGAIN_SECONDS)": "paces a flood",
    "tests/support/grpc_nodes.py: await asyncio.sleep(0.02)": "retries a delivery, as an agent does",
    "tests/support/starvation.py: time.sleep(seconds)": "measures a rate over this time",
    "tests/support/transports.py: await asyncio.sleep(0.05)": "retries a delivery, as an agent does",
    "tests/support/virtual_day.py: await asyncio.sleep(before)": "on a virtual clock, which jumps",
    "tests/support/virtual_day.py: await asyncio.sleep(seconds)": "on a virtual clock, which jumps",
    "tests/support/waiting.py: time.sleep(_PAUSE)": "polls the condition of every test that waits for a process",
    "tests/support/waiting.py: await asyncio.sleep(_SHORT_PAUSE)": "polls a condition of this loop",
    "tests/support/waiting.py: await asyncio.sleep(0)": "gives the loop's other tasks a turn",
    "tests/unit/node/test_agent_notify.py: await asyncio.sleep(0.001)": "intervals of a silent watchdog",
    "tests/unit/node/test_agent_revocation.py: await asyncio.sleep(0.001)": "several periods without another question",
    "tests/unit/node/test_tasks.py: await asyncio.sleep(0.1)": "half of an interval that begins again",
    "tests/unit/ops/test_page_server.py: await asyncio.sleep(0)": "gives the loop's other tasks a turn",
    "tests/unit/ops/test_request_server.py: await asyncio.sleep(0.01)": "lets the server read what was sent",
    "tests/unit/transport/test_reassembly.py: await asyncio.sleep(0)": "gives the loop's other tasks a turn",
    "tests/unit/transport/test_reassembly.py: await asyncio.sleep(0.6 * PATIENCE)": "on a virtual clock, which jumps",
    "tests/unit/transport/test_reassembly.py: await asyncio.sleep(PATIENCE + 1)": "on a virtual clock, which jumps",
    'tests/unit/testing/test_check_parts.py: await asyncio.sleep(self.defects.get("hangs", 0))': "a defect",
    "tests/unit/transport/grpc/test_grpc_transport.py: time.sleep(0.5)": "a slow handshake",
    "tests/unit/transport/grpc/test_grpc_transport.py: await asyncio.sleep(0.02)": "retries, as an agent does",
    "tests/unit/transport/test_mqtt_returns.py: await asyncio.sleep(0.05)": "longer than a device counts as lost",
    "tests/unit/transport/test_multi_transport.py: await asyncio.sleep(0.02)": "a slow peer",
    "tests/unit/vault/test_vault_remote_link.py: await asyncio.sleep(0.2)": "lets a thread block, which nothing shows",
}


def test_every_sleep_has_a_reason() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {line.partition('#')[0].strip()}"
        for path in (ROOT / "tests").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "sleep(" in line and path != Path(__file__)
    }
    assert found - REASONS.keys() == set(), "await a condition (tests/support/waiting.py), or state the reason"
    assert REASONS.keys() - found == set(), "no longer there"
