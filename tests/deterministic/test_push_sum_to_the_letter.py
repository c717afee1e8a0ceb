"""AdaD²P's learners as published: x ← P(x − γ g̃), g̃ at z (ICLR 2024 submission, Algorithm 1, lines 6 to 11).

The learners agree with the paper's lines up to the grid of amounts, 2⁻⁴⁰ = 9.1e-13: 1.4e-12 after six rounds.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.settings import ClipD2pSettings
from sottovoce.data import DataSet, Records, prepare_records
from sottovoce.kernels import Kernel
from sottovoce.learning.learners import Ask, Delivered, Message, PeersChanged, Received, Send, Timer
from sottovoce.net.wire import decode, encode
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Ledger, OperatingSystemNoise
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.run_spec import RunSpec
from sottovoce_lab.testbed.unsigned import UnsignedProvenance
from sottovoce_operator.fleet import enrol

from tests.support.fleets import new_fleet
from tests.support.grpc_nodes import Node, listening
from tests.support.waiting import TIMEOUT

NODES, ROUNDS, STEP = 4, 6, 0.3
Floats = NDArray[np.float64]


def make_plan(learner: str) -> Plan:
    """Plan a noise-free run of four nodes with one record each, so that each step's random record is known."""
    rng = np.random.default_rng(5)
    records = Records(rng.normal(size=(NODES, 6)), np.array([0, 1, 2, 1]))
    data = DataSet("four", records, classes=3, bounds=None, test=Records(rng.normal(size=(9, 6)), np.arange(9) % 3))
    paper_settings = {
        "learner.step_size": STEP,
        "learner.steps": ROUNDS + 1,
        "data.partition": "one-record",
        "data.transform": "none",
    }
    bound = {"learner.gradient_bound": 4.0} if learner == "constd2p" else {}
    spec = RunSpec(
        engine="memory", agents=NODES, cycles=ROUNDS + 1, learner=learner, fidelity="paper", data="digits",
        epsilon=float("inf"), topology="exponential", settings={**paper_settings, **bound},
    )  # fmt: skip
    return plan(spec.options(), data)


def reference(run_plan: Plan) -> list[Floats]:
    """Follow the paper line by line; return all nodes' z, float64[nodes, P], before each round and after the last."""
    kernel = run_plan.family.kernel
    assert kernel is not None
    records_by_node = [prepare_records(raw, run_plan.transform, run_plan.bounds) for raw in run_plan.raw]
    x, w = np.tile(kernel.initial(0), (NODES, 1)), np.ones(NODES)
    results = [x.copy()]
    for turn in range(ROUNDS):
        z = x / w[:, np.newaxis]
        after_step = np.stack(
            [x[i] - STEP * gradient(kernel, z[i], records_by_node[i], run_plan) for i in range(NODES)]
        )
        P = np.eye(NODES) / 2
        for j, peers in enumerate(run_plan.peers):
            P[peers[turn % len(peers)], j] += 0.5
        x, w = P @ after_step, P @ w
        results.append(x / w[:, np.newaxis])
    return results


def gradient(kernel: Kernel, z: Floats, records: Records, run_plan: Plan) -> Floats:
    mean: Floats = kernel.gradients(z[np.newaxis], records.features[np.newaxis], records.labels[np.newaxis])[0, 0]
    learner = run_plan.config.learner
    if not isinstance(learner, ClipD2pSettings) or learner.name != "clipd2p":
        return mean
    clipped: Floats = mean * min(1.0, learner.clip / float(np.linalg.norm(mean)))
    return clipped


Carry = Callable[[int, int, Message], Message]
"""Function that carries a message from one node to another, and returns it as received."""


@contextmanager
def carry_over_grpc(folder: Path) -> Iterator[Carry]:
    """Carry messages over real transports with certificates, in their real encoding."""
    fleet = new_fleet(folder / "authority")
    nodes = [Node(enrol(fleet, folder / f"{i}")) for i in range(NODES)]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(TIMEOUT)

    def carry(sender: int, recipient: int, message: Message) -> Message:
        kind, payload = encode(message)
        run(nodes[sender].deliver_with_retries(nodes[sender].peer(nodes[recipient]), payload))
        _, arrived = nodes[recipient].received[-1]
        assert arrived is not None
        return decode(kind, arrived)

    listeners = listening(*nodes)
    try:
        run(listeners.__aenter__())
        yield carry
        run(listeners.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT)
        loop.close()


def run_synchronously(run_plan: Plan, carry: Carry) -> list[Floats]:
    """Run the real learners and vaults on one clock; return all nodes' z before each round and after the last."""
    names = [f"node-{i}" for i in range(NODES)]
    nodes = []
    for i, name in enumerate(names):
        learner, _ = run_plan.family.learner(name, UnsignedProvenance(), ())
        vault = build(
            records=prepare_records(run_plan.raw[i], run_plan.transform, run_plan.bounds),
            kernel=run_plan.family.kernel,
            terms=run_plan.family.terms,
            ledger=Ledger.in_memory(name, run_plan.options.budget),
            noise=OperatingSystemNoise(),  # draws nothing here; the wire refuses simulated releases
        )
        state, _ = learner.start(learner.initial_state(), 0.0)
        state, _ = learner.on(state, PeersChanged(tuple(names[j] for j in run_plan.peers[i])), 0.0)
        nodes.append((learner, vault, state))
    results = [np.stack([state.estimate for _, _, state in nodes])]
    for turn in range(ROUNDS):
        sent: list[tuple[str, Send]] = []
        for i, (learner, vault, state) in enumerate(nodes):
            state, effects = learner.on(state, Timer("cycle"), float(turn))
            (ask,) = (effect for effect in effects if isinstance(effect, Ask))
            state, more = learner.on(state, vault.answer(ask.query), float(turn))
            sent += [(names[i], effect) for effect in [*effects, *more] if isinstance(effect, Send)]
            nodes[i] = (learner, vault, state)
        assert len(sent) == NODES
        for sender, send in sent:
            arrived = carry(names.index(sender), names.index(send.recipient), send.message)
            for place, event in ((send.recipient, Received(sender, arrived)), (sender, Delivered(send.recipient))):
                learner, vault, state = nodes[names.index(place)]
                nodes[names.index(place)] = (learner, vault, learner.on(state, event, float(turn))[0])
        results.append(np.stack([state.estimate for _, _, state in nodes]))
    return results


def carry_in_memory(sender: int, recipient: int, message: Message) -> Message:
    return message


@pytest.mark.parametrize("learner", ["adad2p", "constd2p", "clipd2p"])
def test_in_memory_rounds_match_the_reference(learner: str) -> None:
    assert_matches_reference(make_plan(learner), carry_in_memory)


def test_grpc_rounds_match_the_reference(tmp_path: Path) -> None:
    with carry_over_grpc(tmp_path) as carry:
        assert_matches_reference(make_plan("adad2p"), carry)


def assert_matches_reference(run_plan: Plan, carry: Carry) -> None:
    results, expected = run_synchronously(run_plan, carry), reference(run_plan)
    for turn, (actual, reference_estimates) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_allclose(actual, reference_estimates, atol=2e-12, rtol=0, err_msg=f"round {turn}")
    assert np.abs(expected[-1] - expected[0]).max() > 0.1
