"""Rounds of a simulated fleet, step by step against independent references in plain NumPy."""

import json
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sottovoce_lab.simulator import Faults, Simulation, Trace, out_peers

from tests.deterministic.rounds_fleet import KERNEL, MOMENTUM, RATE, draw_records, fleet

Vector = NDArray[np.float64]
ROUNDS = 3
GRAPHS = {"ring": 4, "full": 3, "bipartite": 4, "star": 4}


def assert_close(found: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """Assert that two arrays agree, up to the rounding of messages to float32."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def gradient(device: int, point: Vector) -> Vector:
    """Return the mean cross-entropy gradient over a device's records."""
    records = draw_records(device)
    weights, total = point.reshape(4, 3), np.zeros((4, 3))
    for x, label in zip(records.features, records.labels, strict=True):
        scores = np.exp(x @ weights)
        total += np.outer(x, scores / scores.sum() - np.eye(3)[label])
    return total.ravel() / len(records)


def accuracy(point: Vector) -> float:
    public = draw_records(99, 40)
    return float(np.mean((public.features @ point.reshape(4, 3)).argmax(axis=1) == public.labels))


def shapley(candidates: dict[int, Vector]) -> dict[int, float]:
    """Return Shapley values: the mean marginal accuracy over all orders of arrival."""
    phi, orders = dict.fromkeys(candidates, 0.0), list(permutations(candidates))
    for order in orders:
        before = 0.0
        for k in range(len(order)):
            after = accuracy(np.mean([candidates[j] for j in order[: k + 1]], axis=0))
            phi[order[k]] += (after - before) / len(orders)
            before = after
    return phi


def metropolis(peers: list[list[int]]) -> NDArray[np.float64]:
    W = np.zeros((len(peers), len(peers)))
    for i, row in enumerate(peers):
        for j in row:
            W[i, j] = 1 / (1 + max(len(row), len(peers[j])))
        W[i, i] = 1 - W[i].sum()
    return W


def run(name: str, topology: str, rounds: int = ROUNDS) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """Run this many private rounds; return the peers and the events of the run."""
    peers = out_peers(topology, GRAPHS[topology])
    trace = Trace()
    simulation = Simulation(fleet(peers, name, steps=rounds), faults=Faults(), period=1.0, seed=2, event_observer=trace)
    simulation.start()
    simulation.run_until(rounds + 6.0)
    events: list[dict[str, Any]] = json.loads(json.dumps(trace.document()))["events"]
    return peers, events


def after(events: list[dict[str, Any]], device: int, turn: int) -> dict[str, Any]:
    """Return a device's first state after round `turn`."""
    states = (event["state"] for event in events if event["device"] == f"device-{device}" and event["state"])
    return next(state for state in states if state["round"] == turn + 1)


@pytest.mark.parametrize("topology", GRAPHS)
def test_pdsl_rounds_match_the_reference(topology: str) -> None:
    peers, events = run("pdsl", topology)
    W, n = metropolis(peers), len(peers)
    x, u = [KERNEL.initial(0)] * n, [np.zeros(KERNEL.size)] * n
    for turn in range(ROUNDS):
        hats = []
        for i in range(n):
            gradients = {j: gradient(j, x[i]) for j in (i, *peers[i])}
            candidates = {j: x[i] - RATE * g for j, g in gradients.items()}
            phi = shapley(candidates)
            positive = sum(max(value, 0.0) for value in phi.values())
            pi = {j: max(value, 0.0) / positive if positive else 1 / len(phi) for j, value in phi.items()}
            direction = MOMENTUM * u[i] + sum(pi[j] * gradients[j] for j in pi)
            hats.append((direction, x[i] - RATE * direction))
            state = after(events, i, turn)
            assert state["noted_in"] == turn
            for j in phi:
                neighbour = "own" if j == i else f"device-{j}"
                assert_close(state["gradients"][neighbour], gradients[j])
                assert_close(state["candidates"][neighbour], candidates[j])
                assert state["phi"][neighbour] == pytest.approx(phi[j], abs=1e-12)
                assert state["weights"][neighbour] == pytest.approx(pi[j], abs=1e-12)
                assert state["mixing"][neighbour] == pytest.approx(W[i, j], abs=1e-12)
        u = [sum(W[i, j] * hats[j][0] for j in range(n)) for i in range(n)]
        x = [sum(W[i, j] * hats[j][1] for j in range(n)) for i in range(n)]
        for i in range(n):
            assert_close(after(events, i, turn)["direction"], u[i])
            assert_close(after(events, i, turn)["model"], x[i])


@pytest.mark.parametrize("topology", GRAPHS)
def test_dp_dpsgd_rounds_match_the_reference(topology: str) -> None:
    peers, events = run("dp-dpsgd", topology)
    W, X = metropolis(peers), np.tile(KERNEL.initial(0), (len(peers), 1))
    for turn in range(ROUNDS):
        X = W @ X - RATE * np.array([gradient(i, x) for i, x in enumerate(X)])
        for i in range(len(peers)):
            assert_close(after(events, i, turn)["model"], X[i])


@pytest.mark.parametrize("topology", GRAPHS)
def test_muffliato_rounds_are_a_polynomial_in_the_mixing_matrix(topology: str) -> None:
    peers, events = run("muffliato", topology)
    W, X = metropolis(peers), np.tile(KERNEL.initial(0), (len(peers), 1))
    identity = np.eye(len(peers))
    second = 1.2 * W @ W - 0.2 * identity
    third = 1.3 * W @ second - 0.3 * W
    for turn in range(ROUNDS):
        X = third @ (X - RATE * np.array([gradient(i, x) for i, x in enumerate(X)]))
        for i in range(len(peers)):
            assert_close(after(events, i, turn)["model"], X[i])


@pytest.mark.parametrize("topology", ["ring", "full"])
def test_dp_net_fleet_directions_track_the_mean_gradient(topology: str) -> None:
    peers, events = run("dp-net-fleet", topology)
    W, n = metropolis(peers), len(peers)
    X, V, last = np.tile(KERNEL.initial(0), (n, 1)), np.zeros((n, KERNEL.size)), np.zeros((n, KERNEL.size))
    for turn in range(ROUNDS):
        for _ in range(2):
            fresh = np.array([gradient(i, x) for i, x in enumerate(X)])
            V, last = V + fresh - last, fresh
            X = X - RATE * V
        X, V = W @ X, W @ V
        np.testing.assert_allclose(V.mean(axis=0), last.mean(axis=0), rtol=0, atol=1e-12)
        for i in range(n):
            assert_close(after(events, i, turn)["model"], X[i])
            assert_close(after(events, i, turn)["direction"], V[i])


@pytest.mark.parametrize("topology", ["ring", "full"])
def test_dp_cga_rounds_solve_the_quadratic_programme(topology: str) -> None:
    peers, events = run("dp-cga", topology)
    W, n = metropolis(peers), len(peers)
    X, V = np.tile(KERNEL.initial(0), (n, 1)), np.zeros((n, KERNEL.size))
    for turn in range(ROUNDS):
        G = []
        for i in range(n):
            own, others = gradient(i, X[i]), [gradient(j, X[i]) for j in peers[i]]
            solution = minimize(
                lambda g, own=own: 0.5 * np.sum((g - own) ** 2),
                own,
                jac=lambda g, own=own: g - own,
                constraints=[{"type": "ineq", "fun": lambda g, a=a: a @ g, "jac": lambda g, a=a: a} for a in others],
                method="SLSQP",
                options={"ftol": 1e-15, "maxiter": 500},
            )
            G.append(solution.x)
            np.testing.assert_allclose(after(events, i, turn)["projected"], solution.x, rtol=0, atol=2e-5)
        V = MOMENTUM * V - RATE * np.array(G)
        X = W @ X + V
        for i in range(n):
            np.testing.assert_allclose(after(events, i, turn)["model"], X[i], rtol=0, atol=2e-4)
