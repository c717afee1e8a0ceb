"""Views of observers: published figures, and an observer who solves equations."""

from typing import Any

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce_lab.simulator.views import metropolis, topology, views


def seen(name: str, agents: int, **given: Any) -> float:
    return views(metropolis(topology(name, agents), agents), **given).seen


@pytest.mark.parametrize("distance, mu_squared", [(1, 10.0), (2, 2.07), (4, 0.22)])
def test_fresh_noise_on_a_ring_of_eight(distance: int, mu_squared: float) -> None:
    found = seen("ring", 8, rounds=10, noise="fresh", of=distance, seen_by=[0])
    assert found == pytest.approx(mu_squared, rel=0.03)


def test_neighbours_on_all_sides_see_everything() -> None:
    assert seen("complete", 8, rounds=10, noise="fresh", of=3, seen_by=[0]) == pytest.approx(10)
    assert seen("ring", 8, rounds=10, noise="fresh", of=1, seen_by=[0, 2]) == pytest.approx(10)


def test_noise_once_is_local_as_soon_as_messages_arrive() -> None:
    """On the path u - w - v, v knows x_w and then (x_u + x_w + x_v) / 3; adding up the messages' losses says 1/3."""
    path = {"of": 0, "seen_by": [2], "noise": "once"}
    assert seen("path", 3, rounds=1, **path) == 0
    assert seen("path", 3, rounds=2, **path) == pytest.approx(1)
    across = {"of": 8, "seen_by": [0], "noise": "once"}
    assert seen("ring", 16, rounds=7, **across) == 0
    assert seen("ring", 16, rounds=8, **across) == pytest.approx(1)
    assert seen("path", 25, rounds=24, of=24, seen_by=[0], noise="once") == pytest.approx(1)


def test_against_the_pseudoinverse() -> None:
    """x = c + n; m¹ = x; m² = W m¹ + c² + n², seen on the star's leaf 1: the middle's messages only."""
    W = metropolis(topology("star", 4), 4)
    first, second = np.eye(4, 8), np.hstack([W, np.eye(4)])
    A = np.vstack([first[0], second[0]])
    A[:, [1, 5]] = 0
    A_u = A[:, [2, 6]]
    M = A_u.T @ np.linalg.pinv(A @ A.T) @ A_u
    found = seen("star", 4, rounds=2, noise="fresh", of=2, seen_by=[1])
    assert found == pytest.approx(np.abs(M).sum(), rel=1e-6)


def test_local_and_central() -> None:
    found = views(metropolis(topology("ring", 8), 8), rounds=10, noise="fresh", of=0, seen_by=[4])
    assert (found.local, found.central) == (10, 1.25)
    once = views(metropolis(topology("ring", 8), 8), rounds=10, noise="once", of=0, seen_by=[4])
    assert (once.local, once.central) == (1, 0.125)


@pytest.mark.parametrize(
    "changes", [{"of": 8}, {"of": -1}, {"seen_by": []}, {"seen_by": [2]}, {"seen_by": [9]}, {"rounds": 0}], ids=str
)
def test_what_is_no_question(changes: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError):
        seen("ring", 8, **{"rounds": 3, "noise": "fresh", "of": 2, "seen_by": [0], **changes})


def test_what_is_no_network() -> None:
    with pytest.raises(PrivacyError, match="use ring"):
        topology("torus", 9)
    with pytest.raises(PrivacyError, match="two agents"):
        topology("ring", 1)
    for edge in ((0, 0), (0, 3), (-1, 0)):
        with pytest.raises(PrivacyError, match="edge"):
            metropolis([edge], 3)
    assert topology("ring", 2) == [(0, 1)]
