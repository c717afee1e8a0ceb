"""Algorithm 2, decision by decision and step by step, against loops that follow its listing."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.errors import ConfigError
from sottovoce_lab.published.controller import GLOBAL, LOCAL, Controller, TargetStep, Terms

Transition = tuple[NDArray[np.float64], int, float, NDArray[np.float64] | None]


def make_transitions(count: int, seed: int = 0) -> list[Transition]:
    generator = np.random.default_rng(seed)
    states = generator.normal(size=(count + 1, 3))
    return [
        (states[t], int(generator.integers(2)), -float(generator.random()), states[t + 1] if t % 4 != 3 else None)
        for t in range(count)
    ]


def make_controller(transitions: list[Transition], terms: Terms | None = None, seed: int = 1) -> Controller:
    controller = Controller.new(terms or Terms(3, 10, hidden=8), np.random.default_rng(seed))
    for transition in transitions:
        controller.observe(*transition)
    return controller


def test_the_paper_s_constants() -> None:
    terms = Terms(51, 60)
    assert (terms.hidden, terms.rate, terms.memory, terms.batch, terms.min_exploration) == (128, 0.01, 20, 10, 0.1)


def test_exploration_decreases_linearly() -> None:
    controller, generator = make_controller([]), np.random.default_rng(0)
    observed = [controller.exploration]
    for _ in range(14):
        controller.decide(np.zeros(3), generator)
        observed.append(controller.exploration)
    np.testing.assert_allclose(observed, [*np.linspace(1, 0.1, 11), *[0.1] * 4])


def test_decisions_are_random_first_and_later_mostly_the_larger_value() -> None:
    controller, generator = make_controller([], Terms(3, 1000, hidden=8)), np.random.default_rng(0)
    early = [controller.decide(np.ones(3), generator) for _ in range(100)]
    assert 30 < sum(early) < 70
    controller.decisions = 1000
    late = [controller.decide(np.ones(3), generator) for _ in range(2000)]
    better = int(controller.network.values(np.ones((1, 3)))[0].argmax())
    assert late.count(better) / 2000 == pytest.approx(0.95, abs=0.02), "1 - p/2, at p = 0.1"


def test_equal_values_choose_local() -> None:
    controller = make_controller([], Terms(3, 1, min_exploration=0.0))
    controller.decisions = 1
    assert controller.decide(np.zeros(3), np.random.default_rng(0)) == LOCAL != GLOBAL


def test_the_memory_drops_the_oldest() -> None:
    controller = make_controller(make_transitions(33))
    sampled: set[int] = set()
    for seed in range(40):
        step = controller.learn(np.random.default_rng(seed))
        assert step is not None
        assert len(set(step.transitions.tolist())) == 10
        sampled |= set(step.transitions.tolist())
    assert sampled == set(range(13, 33)), "the last 20 of 33"


def test_nothing_is_learnt_before_a_batch_is_complete() -> None:
    controller = make_controller(make_transitions(9))
    assert controller.learn(np.random.default_rng(0)) is None
    assert controller.optimiser.steps == 0
    controller.observe(*make_transitions(1)[0])
    assert controller.learn(np.random.default_rng(0)) is not None


def test_a_step_follows_the_listing() -> None:
    transitions = make_transitions(25)
    controller, generator = (
        make_controller(transitions, Terms(3, 10, hidden=8, copy_every=3, discount=0.7)),
        np.random.default_rng(2),
    )
    target = controller.target
    for number in range(1, 12):
        network = controller.network
        assert controller.target is target
        step = controller.learn(generator)
        assert isinstance(step, TargetStep)
        losses = []
        for index, j in enumerate(step.transitions.tolist()):
            state, action, reward, following = transitions[j]
            later = 0.0 if following is None else float(max(target.values(following[np.newaxis])[0]))
            assert step.targets[index] == pytest.approx(reward + 0.7 * later, rel=1e-12)
            predicted = float(network.values(state[np.newaxis])[0, action])
            assert step.predictions[index] == pytest.approx(predicted, rel=1e-12)
            losses.append((step.targets[index] - predicted) ** 2)
        assert step.loss == pytest.approx(sum(losses) / 10, rel=1e-12)
        assert step.copied == (number % 3 == 0)
        assert controller.network is not network
        if step.copied:
            target = controller.network


def test_it_learns_which_action_is_rewarded() -> None:
    """Reward 1 for GLOBAL if the first number is positive, and for LOCAL if it is negative."""
    generator = np.random.default_rng(3)
    controller = Controller.new(Terms(2, 200, discount=0.0, memory=200), generator)
    for _ in range(400):
        state = np.array([generator.choice([-1.0, 1.0]), generator.normal()])
        action = controller.decide(state, generator)
        controller.observe(state, action, float((action == GLOBAL) == (state[0] > 0)), None)
        controller.learn(generator)
    values = controller.network.values(np.array([[1.0, 0.3], [-1.0, 0.3]]))
    assert values.argmax(axis=1).tolist() == [GLOBAL, LOCAL]


def test_observations_are_copied() -> None:
    state = np.ones(3)
    controller = make_controller([(state, LOCAL, 0.0, state)] * 10)
    twin = make_controller([(np.ones(3), LOCAL, 0.0, np.ones(3))] * 10)
    state[:] = 7
    one, other = controller.learn(np.random.default_rng(0)), twin.learn(np.random.default_rng(0))
    assert isinstance(one, TargetStep)
    assert isinstance(other, TargetStep)
    assert np.array_equal(one.targets, other.targets)
    assert np.array_equal(one.predictions, other.predictions)


def test_the_generators_determine_everything() -> None:
    def run() -> tuple[list[int], NDArray[np.float64]]:
        controller, generator = make_controller([]), np.random.default_rng(4)
        actions = []
        for state, _, reward, following in make_transitions(40):
            actions.append(controller.decide(state, generator))
            controller.observe(state, actions[-1], reward, following)
            controller.learn(generator)
        return actions, controller.network.hidden_weights

    (actions, weights), (others, repeated) = run(), run()
    assert actions == others
    assert np.array_equal(weights, repeated)


@pytest.mark.parametrize(
    "changed",
    [{"batch": 21}, {"batch": 0}, {"copy_every": 0}, {"discount": 1.5}, {"rate": 0.0}, {"min_exploration": -0.1}],
)
def test_invalid_terms_are_refused(changed: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="correct"):
        Terms(3, 10, **changed)  # type: ignore[arg-type]
