"""Sixty memberships under a virtual clock: they find one another, recover from deaths and partitions, detect copies."""

import random
from collections.abc import Sequence

import pytest
from sottovoce.fleet import Identity
from sottovoce_bootstrap import Request

from tests.unit.bootstrap.overlay import PERIOD, Overlay, make_address, make_seed

pytestmark = pytest.mark.slow

Identities = Sequence[Identity]
SIZE = 60


def _seed_number(shape: str, number: int, rng: random.Random) -> int:
    match shape:
        case "chain":
            return max(0, number - 1)
        case "star":
            return 0
        case _:
            return rng.randrange(number) if number else 0


def _fleet(overlay: Overlay, identities: Identities, shape: str = "star") -> Overlay:
    rng = random.Random(7)
    for number, identity in enumerate(identities):
        overlay.add(identity, [make_seed(identities[_seed_number(shape, number, rng)])])
    return overlay


@pytest.mark.parametrize("shape, loss", [("chain", 0.2), ("star", 0.0), ("tree", 0.2)])
def test_from_one_seed_each_all_become_one_fleet_and_survive_the_death_of_half(
    identities: Identities, shape: str, loss: float
) -> None:
    overlay = _fleet(Overlay(seed=1, loss=loss), identities[:SIZE], shape)
    overlay.until(lambda: all(len(view) == 30 for view in overlay.views().values()))
    assert overlay.components() == 1
    known = set().union(*overlay.views().values())
    assert len(known) == SIZE
    for address in random.Random(5).sample(sorted(overlay.nodes), SIZE // 2):
        overlay.stop(overlay.nodes[address])
    overlay.until(
        lambda: overlay.dead_share() < 0.01, 15
    )  # the guarantee itself is tested with ten thousand devices, from a seed
    overlay.until(lambda: overlay.dead_share() == 0 and overlay.components() == 1)
    assert not any(node.alarms for node in overlay.nodes.values())


def test_in_a_small_fleet_every_device_finds_all_others(identities: Identities) -> None:
    overlay = _fleet(Overlay(seed=2, loss=0.1), identities[:12], "chain")
    overlay.until(lambda: all(len(view) == 11 for view in overlay.views().values()))


def test_the_same_seed_yields_the_same_views(identities: Identities) -> None:
    views = []
    for _ in range(2):
        overlay = _fleet(Overlay(seed=3, loss=0.3), identities[:40], "tree")
        overlay.run(8)
        views.append(overlay.views())
    assert views[0] == views[1]


def test_two_separated_halves_become_one_fleet_again(identities: Identities) -> None:
    overlay = _fleet(Overlay(seed=4), identities[:24])
    overlay.run(12)
    half = set(sorted(overlay.nodes)[:12])
    overlay.reachable = lambda one, other: (one in half) == (other in half)
    overlay.until(lambda: overlay.components() == 2)
    assert overlay.dead_share() == 0
    overlay.reachable = lambda one, other: True
    first = {node.identity.node_id for address, node in overlay.nodes.items() if address in half}
    overlay.until(lambda: all(view & first and view - first for view in overlay.views().values()))
    assert overlay.components() == 1


def test_a_device_returns_from_its_address_book_with_a_higher_incarnation(identities: Identities) -> None:
    overlay = _fleet(Overlay(seed=5), identities[:20])
    overlay.run(12)
    node = overlay.nodes[make_address(identities[7])]
    assert node.membership is not None
    last = node.membership.record.version
    overlay.stop(node)
    overlay.stop(overlay.nodes[make_address(identities[0])])  # its seed
    overlay.until(lambda: not any(node.identity.node_id in view for view in overlay.views().values()))
    overlay.start(node)
    overlay.until(lambda: len(overlay.views()[node.identity.node_id]) == 18)
    overlay.until(lambda: sum(node.identity.node_id in view for view in overlay.views().values()) == 18)
    assert node.membership.record.version > last
    assert not node.alarms


def test_a_device_that_announces_its_departure_disappears_at_once(identities: Identities) -> None:
    overlay = _fleet(Overlay(seed=6), identities[:20])
    overlay.run(12)
    node = overlay.nodes[make_address(identities[7])]
    assert node.membership is not None
    farewell = node.membership.leave(overlay.now)
    leaving = [effect.exchange.sender.leaving for effect in farewell if isinstance(effect, Request)]
    assert 3 <= len(leaving) <= 6, "the warm peers without a current exchange"
    assert all(leaving)
    overlay.perform(node, farewell)
    overlay.run(0.1)
    overlay.stop(node)
    overlay.until(lambda: not any(node.identity.node_id in view for view in overlay.views().values()), 6)


def test_both_copies_detect_a_copied_identity_and_the_fleet_continues(identities: Identities) -> None:
    overlay = _fleet(Overlay(seed=8), identities[:20])
    overlay.run(5)
    original = overlay.nodes[make_address(identities[7])]
    copy = overlay.add(identities[7], original.seeds, address="copy.internal:7400")
    began = overlay.now
    overlay.until(lambda: original.alarms and copy.alarms)
    overlay.run(10)
    assert "another device uses this device's identity" in str(copy.alarms[0])
    horizons = (overlay.now - began) / (8 * PERIOD)
    assert len(original.alarms) + len(copy.alarms) <= 2 * (1 + horizons), "each at most once per horizon"
    overlay.until(lambda: overlay.components() == 1)
    assert not any(node.alarms for node in overlay.nodes.values() if node not in (original, copy))


def test_a_device_without_its_boot_counter_exceeds_the_incarnation_that_the_fleet_knows(identities: Identities) -> None:
    overlay = _fleet(Overlay(seed=9), identities[:20])
    node = overlay.nodes[make_address(identities[7])]
    for _ in range(4):
        overlay.run(4)
        overlay.stop(node)
        overlay.start(node)
    overlay.run(12)
    overlay.stop(node)
    overlay.run(12)
    node.boots = 0
    overlay.start(node)
    overlay.until(lambda: node.alarms)
    overlay.until(lambda: sum(node.identity.node_id in view for view in overlay.views().values()) == 19)
    assert [alarm.incarnation for alarm in node.alarms] == [6]


def test_a_fleet_with_one_dead_shared_seed_waits_only_for_it(identities: Identities) -> None:
    overlay = Overlay(seed=10)
    for identity in identities[1:8]:
        overlay.add(identity, [make_seed(identities[0])])
    overlay.run(30)
    assert not any(overlay.views().values())
    overlay.add(identities[0])
    overlay.until(
        lambda: all(len(view) == 7 for view in overlay.views().values())
    )  # pauses have grown to eight periods
