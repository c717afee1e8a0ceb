"""One peer's quota on a device."""

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.net.quota import _LIMITS, _MAX_PEERS, Quota, Refusals
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.ops import Counters

PERIOD = 10.0
SHARES = int(_LIMITS["shares"].capacity)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quota(clock: Clock) -> Quota:
    return Quota(PERIOD, clock)


def taken(quota: Quota, sender: str, most: int) -> int:
    """Return how many of `most` shares are accepted."""
    for number in range(most):
        try:
            quota.charge_share(sender)
        except MessageRefused:
            return number
    return most


def test_only_the_peer_over_its_quota_is_refused(quota: Quota) -> None:
    assert taken(quota, "greedy", 1000) == SHARES
    assert taken(quota, "honest", 3) == 3


def test_the_quota_refills_with_time_up_to_its_limit(quota: Quota, clock: Clock) -> None:
    taken(quota, "greedy", 1000)
    clock.now = PERIOD
    assert taken(quota, "greedy", 1000) == _LIMITS["shares"].per_period
    clock.now = 1000 * PERIOD
    assert taken(quota, "greedy", 1000) == SHARES


def test_a_day_of_maximum_traffic_writes_at_most_eight_shares_per_period(quota: Quota, clock: Clock) -> None:
    day, total = 86400, 0
    for clock.now in range(day):
        total += taken(quota, "greedy", 100)
    assert total <= SHARES + 8 * day / PERIOD


def test_the_largest_message_arrives_even_if_each_part_is_tried_twice(quota: Quota) -> None:
    for _ in range(2):
        for _ in range(16):
            quota.charge_message("honest", MAX_ENVELOPE_BYTES // 16)


@pytest.mark.parametrize("size", [0, MAX_ENVELOPE_BYTES])
def test_messages_and_bytes_are_bounded(quota: Quota, size: int) -> None:
    thing, most = ("bytes", 8) if size else ("messages", 256)
    for _ in range(most):
        quota.charge_message("greedy", size)
    with pytest.raises(MessageRefused, match=f"greedy .*quota of {thing}"):
        quota.charge_message("greedy", size)


def test_many_peers_use_bounded_memory(quota: Quota) -> None:
    for number in range(_MAX_PEERS + 100):
        quota.charge_message(f"{number}", 1)
        quota.charge_share(f"{number}")
    assert len(quota._buckets) <= _MAX_PEERS * len(_LIMITS)


def test_a_check_costs_nothing_and_refuses_a_sender_without_tokens(quota: Quota) -> None:
    for _ in range(1000):
        quota.check_message("honest")
    quota.charge_message("honest", 10)
    for _ in range(int(_LIMITS["messages"].capacity)):
        quota.charge_message("greedy", 0)
    with pytest.raises(MessageRefused):
        quota.check_message("greedy")


def test_a_message_that_no_correct_device_sends_costs_more(quota: Quota) -> None:
    for _ in range(8):
        quota.charge_message("greedy", 2**18)
        quota.note_refusal("greedy", 2**18, MessageRefused("malformed", "no protobuf"))
        quota.charge_message("honest", 2**18)
        quota.note_refusal("honest", 2**18, MessageRefused("task", "another task"))
    quota.check_message("honest")
    with pytest.raises(MessageRefused) as refused:
        quota.check_message("greedy")
    assert refused.value.reason == "quota"


def test_many_senders_with_many_faults_fill_no_log(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(Counters(), clock)
    for number in range(1000):
        refusals.note(f"{number}", MessageRefused("malformed", "no protobuf"))
    assert len(caplog.records) == 64
    clock.now += 120.0
    for number in range(1000):
        refusals.note(f"{number}", MessageRefused("malformed", "no protobuf"))
    assert len(caplog.records) == 66
