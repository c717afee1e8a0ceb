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
from sottovoce.algorithms.family import prepare_records
from sottovoce.algorithms.push_sum.settings import ClipD2pSettings
from sottovoce.data import DataSet, Records
from sottovoce.identity import enrol
from sottovoce.kernels import Kernel
from sottovoce.learners import Ask, Delivered, Message, PeersChanged, Received, Send, Timer
from sottovoce.vault import Ledger, OperatingSystemNoise, build
from sottovoce.wire import decode, encode
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.run_spec import RunSpec
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

from tests.support.fleets import new_fleet
from tests.support.grpc_nodes import Node, listening
from tests.support.waiting import PATIENCE

NODES, ROUNDS, STEP = 4, 6, 0.3
Floats = NDArray[np.float64]


def planned(learner: str) -> Plan:
    """Four nodes with one record each, so that the random record of a step is known; no noise."""
    rng = np.random.default_rng(5)
    records = Records(rng.normal(size=(NODES, 6)), np.array([0, 1, 2, 1]))
    data = DataSet("four", records, classes=3, bounds=None, test=Records(rng.normal(size=(9, 6)), np.arange(9) % 3))
    letter = {
        "learner.step_size": STEP,
        "learner.steps": ROUNDS + 1,
        "data.partition": "one-record",
        "data.transform": "none",
    }
    bound = {"learner.gradient_bound": 4.0} if learner == "constd2p" else {}
    spec = RunSpec(
        engine="memory", agents=NODES, cycles=ROUNDS + 1, learner=learner, fidelity="paper", data="digits",
        epsilon=float("inf"), topology="exponential", settings={**letter, **bound},
    )  # fmt: skip
    return plan(spec.options(), data)


def reference(asked: Plan) -> list[Floats]:
    """z of all nodes, float64[nodes, P], before each round and after the last, by the paper's lines."""
    kernel = asked.family.kernel
    assert kernel is not None
    held = [prepare_records(raw, asked.transform, asked.bounds) for raw in asked.raw]
    x, w = np.tile(kernel.initial(0), (NODES, 1)), np.ones(NODES)
    found = [x.copy()]
    for turn in range(ROUNDS):
        z = x / w[:, np.newaxis]
        stepped = np.stack([x[i] - STEP * gradient(kernel, z[i], held[i], asked) for i in range(NODES)])
        P = np.eye(NODES) / 2
        for j, peers in enumerate(asked.peers):
            P[peers[turn % len(peers)], j] += 0.5
        x, w = P @ stepped, P @ w
        found.append(x / w[:, np.newaxis])
    return found


def gradient(kernel: Kernel, z: Floats, own: Records, asked: Plan) -> Floats:
    found: Floats = kernel.gradients(z[np.newaxis], own.features[np.newaxis], own.labels[np.newaxis])[0, 0]
    learner = asked.config.learner
    if not isinstance(learner, ClipD2pSettings) or learner.name != "clipd2p":
        return found
    clipped: Floats = found * min(1.0, learner.clip / float(np.linalg.norm(found)))
    return clipped


Carry = Callable[[int, int, Message], Message]
"""Takes a message from one node to another, and returns it as it arrived."""


@contextmanager
def over_grpc(folder: Path) -> Iterator[Carry]:
    """Real transports with certificates, and the real encoding: each message goes through a socket."""
    fleet = new_fleet(folder / "authority")
    nodes = [Node(enrol(fleet, folder / f"{i}")) for i in range(NODES)]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    def carry(sender: int, recipient: int, message: Message) -> Message:
        kind, payload = encode(message)
        run(nodes[sender].delivers(nodes[sender].peer(nodes[recipient]), payload))
        _, arrived = nodes[recipient].received[-1]
        assert arrived is not None
        return decode(kind, arrived)

    opened = listening(*nodes)
    try:
        run(opened.__aenter__())
        yield carry
        run(opened.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def in_step(asked: Plan, carry: Carry) -> list[Floats]:
    """z of all nodes before each round and after the last: the real learners and vaults, all on one clock."""
    names = [f"node-{i}" for i in range(NODES)]
    nodes = []
    for i, name in enumerate(names):
        learner, _ = asked.family.learner(name, UnsignedProvenance(), ())
        vault = build(
            records=prepare_records(asked.raw[i], asked.transform, asked.bounds),
            kernel=asked.family.kernel,
            terms=asked.family.terms,
            ledger=Ledger.in_memory(name, asked.options.budget),
            noise=OperatingSystemNoise(),  # of which none is drawn; the wire refuses what is simulated
        )
        state, _ = learner.start(learner.fresh(), 0.0)
        state, _ = learner.on(state, PeersChanged(tuple(names[j] for j in asked.peers[i])), 0.0)
        nodes.append((learner, vault, state))
    found = [np.stack([state.estimate for _, _, state in nodes])]
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
        found.append(np.stack([state.estimate for _, _, state in nodes]))
    return found


def by_hand(sender: int, recipient: int, message: Message) -> Message:
    return message


@pytest.mark.parametrize("learner", ["adad2p", "constd2p", "clipd2p"])
def test_a_step_comes_before_the_mixing(learner: str) -> None:
    agrees(planned(learner), by_hand)


def test_so_it_does_over_grpc(tmp_path: Path) -> None:
    with over_grpc(tmp_path) as carry:
        agrees(planned("adad2p"), carry)


def agrees(asked: Plan, carry: Carry) -> None:
    found, expected = in_step(asked, carry), reference(asked)
    for turn, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(ours, theirs, atol=2e-12, rtol=0, err_msg=f"round {turn}")
    assert np.abs(expected[-1] - expected[0]).max() > 0.1
