"""Views of observers: published figures, and an observer who solves equations."""

from typing import Any

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce_lab.simulator.views import metropolis, topology, views


def observer_view(name: str, agents: int, **arguments: Any) -> float:
    return views(metropolis(topology(name, agents), agents), **arguments).observer_loss


@pytest.mark.parametrize("distance, mu_squared", [(1, 10.0), (2, 2.07), (4, 0.22)])
def test_fresh_noise_on_a_ring_of_eight(distance: int, mu_squared: float) -> None:
    found = observer_view("ring", 8, rounds=10, noise="fresh", of=distance, seen_by=[0])
    assert found == pytest.approx(mu_squared, rel=0.03)


def test_surrounding_observers_have_full_view() -> None:
    assert observer_view("complete", 8, rounds=10, noise="fresh", of=3, seen_by=[0]) == pytest.approx(10)
    assert observer_view("ring", 8, rounds=10, noise="fresh", of=1, seen_by=[0, 2]) == pytest.approx(10)


def test_single_noise_equals_local_view_after_first_messages() -> None:
    """On the path u - w - v, v knows x_w and then (x_u + x_w + x_v) / 3; adding up the messages' losses says 1/3."""
    path = {"of": 0, "seen_by": [2], "noise": "once"}
    assert observer_view("path", 3, rounds=1, **path) == 0
    assert observer_view("path", 3, rounds=2, **path) == pytest.approx(1)
    opposite = {"of": 8, "seen_by": [0], "noise": "once"}
    assert observer_view("ring", 16, rounds=7, **opposite) == 0
    assert observer_view("ring", 16, rounds=8, **opposite) == pytest.approx(1)
    assert observer_view("path", 25, rounds=24, of=24, seen_by=[0], noise="once") == pytest.approx(1)


def test_views_match_pseudoinverse() -> None:
    """x = c + n; m¹ = x; m² = W m¹ + c² + n², seen on the star's leaf 1: the middle's messages only."""
    W = metropolis(topology("star", 4), 4)
    first, second = np.eye(4, 8), np.hstack([W, np.eye(4)])
    A = np.vstack([first[0], second[0]])
    A[:, [1, 5]] = 0
    A_u = A[:, [2, 6]]
    M = A_u.T @ np.linalg.pinv(A @ A.T) @ A_u
    found = observer_view("star", 4, rounds=2, noise="fresh", of=2, seen_by=[1])
    assert found == pytest.approx(np.abs(M).sum(), rel=1e-6)


def test_local_and_central_views() -> None:
    found = views(metropolis(topology("ring", 8), 8), rounds=10, noise="fresh", of=0, seen_by=[4])
    assert (found.local_loss, found.central_loss) == (10, 1.25)
    single_noise = views(metropolis(topology("ring", 8), 8), rounds=10, noise="once", of=0, seen_by=[4])
    assert (single_noise.local_loss, single_noise.central_loss) == (1, 0.125)


@pytest.mark.parametrize(
    "changes", [{"of": 8}, {"of": -1}, {"seen_by": []}, {"seen_by": [2]}, {"seen_by": [9]}, {"rounds": 0}], ids=str
)
def test_invalid_view_questions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError):
        observer_view("ring", 8, **{"rounds": 3, "noise": "fresh", "of": 2, "seen_by": [0], **changes})


def test_invalid_networks_are_refused() -> None:
    with pytest.raises(PrivacyError, match="use ring"):
        topology("torus", 9)
    with pytest.raises(PrivacyError, match="two agents"):
        topology("ring", 1)
    for edge in ((0, 0), (0, 3), (-1, 0)):
        with pytest.raises(PrivacyError, match="edge"):
            metropolis([edge], 3)
    assert topology("ring", 2) == [(0, 1)]
