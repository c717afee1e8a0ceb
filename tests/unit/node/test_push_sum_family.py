"""Push-sum's learners from a configuration: each name's meaning, with fidelity `sound` and `paper`."""

import math
from typing import Any

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.push_sum.centring import record_sum
from sottovoce.algorithms.push_sum.parts import build_schedule, contributors
from sottovoce.algorithms.push_sum.step_count import max_steps, step_count
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import ConfigError
from sottovoce.net.wire import MAX_PARAMETERS
from sottovoce.privacy.terms.gradients import MEAN_SHARE, GradientTerms, NormalisedTerms, RecordSum
from sottovoce.privacy.vault import gaussian_mu
from sottovoce_lab.published.push_sum import published_sigma, true_epsilon
from sottovoce_lab.published.terms import PublishedTerms

SIZE = 650


def config(
    name: str,
    epsilon: float = 2.0,
    unit: str = "record",
    relation: str | None = None,
    transform: str = "centred-unit",
    records: float = 180.0,
    **learner: Any,
) -> AgentConfig:
    data = {"source": "digits", "features": 64, "classes": 10, "expected_records": records, "transform": transform}
    return config_from_tables(
        {
            "agent": {"state": "."},
            "data": data,
            "learner": {"name": name, **learner},
            "privacy": {"epsilon": epsilon, "unit": unit} | ({} if relation is None else {"neighbouring": relation}),
        },
        "test",
    )


@pytest.mark.parametrize(
    "name, learner, rule, clip",
    [
        ("clipd2p", {}, None, 0.5),
        ("clipd2p", {"clipping": "decay"}, "decay", 1.0),
        ("constd2p", {}, None, 0.5),
        ("constd2p", {"gradient_bound": 0.9}, None, 0.9),
        ("adad2p", {}, "decay", 1.0),
        ("adad2p", {"clipping": "automatic"}, "automatic", 1.0),
        ("adad2p", {"clipping": "constant", "clip": 0.2}, None, 0.2),
    ],
)
def test_each_name_s_default_meaning(name: str, learner: dict[str, Any], rule: str | None, clip: float) -> None:
    terms = build_family(config(name, **learner)).terms
    if rule is None:
        assert isinstance(terms, GradientTerms)
        assert terms.clip == clip
    else:
        assert isinstance(terms, NormalisedTerms)
        assert (terms.rule, terms.sums.clip, terms.learner) == (rule, clip, name)


@pytest.mark.parametrize("batch, expected", [(60, 60), (1000, 180)])
def test_a_step_is_divided_by_the_random_batch_s_size(batch: int, expected: int) -> None:
    """A batch larger than a device's records contains all of them."""
    chosen = config("clipd2p", sampling="poisson", batch=batch)
    terms = build_family(chosen).terms
    assert isinstance(terms, GradientTerms)
    assert (terms.sampling, terms.batch, terms.of) == ("poisson", expected, 180)
    assert build_schedule(chosen, SIZE).expected_records == expected


@pytest.mark.parametrize("name, clip", [("clipd2p", 0.5), ("constd2p", 0.5), ("adad2p", 1.0)])
def test_contributions_shorten_their_steps_while_gradients_oscillate(name: str, clip: float) -> None:
    rule = build_schedule(config(name), SIZE).damping
    assert rule is not None
    assert rule.longest == 180.0 * clip
    assert rule.noise == pytest.approx(clip * math.sqrt(48) / (gaussian_mu(2.0, 1e-5) * math.sqrt(1 - MEAN_SHARE)))
    unlimited = build_schedule(config(name, math.inf), SIZE).damping
    assert unlimited is not None
    assert unlimited.noise == 0.0


@pytest.mark.parametrize(
    "fixed",
    [
        config("clipd2p", mixing="pairwise"),
        config("clipd2p", mixing="push-sum"),
        config("clipd2p", step_size=20.0),
        config("clipd2p", sampling="poisson", batch=60),
        config("clipd2p", unit="device"),
        config("push-sum", math.inf),
    ],
    ids=["pairwise", "push-sum", "configured", "poisson", "device", "noiseless"],
)
def test_other_learners_steps_are_fixed(fixed: AgentConfig) -> None:
    assert build_schedule(fixed, SIZE).damping is None


def test_the_step_size_follows_the_budget_s_noise() -> None:
    """Half the noise allows twice the step, up to a limit; a configured step size takes precedence."""
    small, large = (build_schedule(config("clipd2p", epsilon, centre="none"), SIZE).step_size for epsilon in (0.5, 1.0))
    assert large / small == pytest.approx(0.268051 / 0.142193, rel=1e-2), "like the two budgets' μ"
    assert small * 0.5 == pytest.approx(3.1, rel=0.05), "γC"
    pairs = build_schedule(config("clipd2p", 0.5, mixing="pairwise", centre="none"), SIZE)
    assert pairs.step_size == pytest.approx(small * 120 / 150)
    assert pairs.step_decay == 0.5
    for epsilon, last in ((0.2, 0.5), (1.0, 5.0 / large), (100.0, 5.0 / 160.0)):
        assert 1 - build_schedule(config("clipd2p", epsilon, centre="none"), SIZE).step_decay == pytest.approx(
            min(0.5, last)
        )
    assert build_schedule(config("clipd2p", 0.5, step_decay=0.1, centre="none"), SIZE).step_decay == 0.1
    assert build_schedule(config("clipd2p", 100.0, mixing="contributions", centre="none"), SIZE).step_size == 160.0
    assert build_schedule(config("clipd2p", 100.0, mixing="pairwise", centre="none"), SIZE).step_size == 40.0
    assert build_schedule(config("clipd2p", math.inf), SIZE).step_size == 160.0
    assert build_schedule(config("push-sum", math.inf), SIZE).step_size == 20.0
    assert build_schedule(config("clipd2p", 0.5, step_size=7.0, centre="none"), SIZE).step_size == 7.0
    assert build_schedule(config("clipd2p", 0.5, clip=0.25, centre="none"), SIZE).step_size == pytest.approx(2 * small)
    assert build_schedule(config("clipd2p", 0.5, unit="device", centre="none"), SIZE).step_size == 20.0


def test_replacing_a_record_doubles_the_noise_and_halves_the_step() -> None:
    """A replaced record moves a clipped sum by up to 2C instead of C."""
    added, replaced = (config("clipd2p", 0.5, relation=relation) for relation in ("add-remove", "replace-one"))
    assert build_schedule(replaced, SIZE).step_size == pytest.approx(build_schedule(added, SIZE).step_size / 2)
    noise = [build_schedule(chosen, SIZE).damping.noise for chosen in (added, replaced)]  # type: ignore[union-attr]
    assert noise[1] == pytest.approx(2 * noise[0])
    expected = [build_family(chosen).signal() for chosen in (added, replaced)]
    assert expected[1].noise / expected[1].signal == pytest.approx(2 * expected[0].noise / expected[0].signal)  # type: ignore[union-attr]


def test_models_with_their_own_start_begin_there_on_every_device() -> None:
    family = build_family(config("clipd2p", model="mlp", hidden=4, mixing="pairwise"))
    first, second = (family.learner(name, None, ())[0].initial_state() for name in "ab")  # type: ignore[arg-type]
    assert first.numerator.any()
    assert first.numerator.tolist() == second.numerator.tolist()


def test_the_number_of_stored_contributions_fits_a_small_device_s_memory() -> None:
    wide: dict[str, Any] = {"model": "mlp", "hidden": 4096, "mixing": "contributions"}
    size = build_family(config("clipd2p", **{**wide, "mixing": "push-sum"})).model.size
    most = 2**22 // size - 1
    assert 2 <= most < 1024
    build_family(config("clipd2p", **wide, contributors=most))
    assert contributors(config("clipd2p", **wide), size) == min(64, most)
    with pytest.raises(ConfigError, match=f"set at most {most}"):
        build_family(config("clipd2p", **wide, contributors=most + 1))


def test_the_memory_of_contributions_counts_their_sums_of_records() -> None:
    centred, other = (config("clipd2p", records=5000.0, centre=centre) for centre in ("private", "none"))
    size = 2**22 // 64
    assert (contributors(centred, size), contributors(other, size)) == (62, 63)


@pytest.mark.parametrize("sigma, epsilon", [(0.5, 31.5), (1.0, 2.48), (2.0, 0.126)])
def test_clipd2p_s_true_epsilon(sigma: float, epsilon: float) -> None:
    """ALGORITHMS §4b.6, at J = 2,500 and K = 3,500; our value is rounded up, by at most a few percent."""
    assert epsilon <= true_epsilon(sigma, 3500, 2500, 1e-5) <= 1.03 * epsilon


@pytest.mark.parametrize("name", ["adad2p", "constd2p", "clipd2p"])
def test_paper_fidelity_draws_one_random_record_per_step(name: str) -> None:
    bound: dict[str, Any] = {"gradient_bound": 3.5} if name == "constd2p" else {}
    chosen = config(name, fidelity="paper", sigma=0.05, clip=2.0, **bound)
    terms, schedule = build_family(chosen).terms, build_schedule(chosen, SIZE)
    assert isinstance(terms, PublishedTerms)
    assert (terms.batch, terms.has_relative_noise) == (1, name == "adad2p")
    assert terms.sigma == pytest.approx({"adad2p": 0.05, "constd2p": 0.05 * 3.5, "clipd2p": 0.05 * 2.0}[name])
    assert terms.clip == (2.0 if name == "clipd2p" else None)
    assert terms.claim.is_refuted == (name != "clipd2p")
    assert (schedule.expected_records, schedule.step_decay, schedule.step_size) == (1.0, 0.0, 0.03)
    assert chosen.is_unproved
    assert chosen.neighbouring == "replace-one"


def test_without_sigma_the_paper_s_formula_applies() -> None:
    chosen = config("clipd2p", 2.0, fidelity="paper", steps=400)
    assert published_sigma(chosen) == pytest.approx(math.sqrt(400 * math.log(1e5)) / (180 * 2.0))
    claim = build_family(chosen).terms.claim  # type: ignore[attr-defined]
    assert claim.epsilon == pytest.approx(2.0)
    assert "c₂ = 1" in claim.composition
    assert published_sigma(config("clipd2p", math.inf, fidelity="paper")) == 0.0


def test_an_undeclared_bound_is_requested() -> None:
    with pytest.raises(ConfigError, match=r"learner\.gradient_bound"):
        build_family(config("constd2p", fidelity="paper"))
    assert isinstance(build_family(config("constd2p", math.inf, fidelity="paper")).terms, PublishedTerms)


@pytest.mark.parametrize(
    "unit, epsilon, held, expected",
    [("record", math.inf, 12_000, 4.0), ("window", math.inf, 12_000, 4.0), ("window", 2.0, 12_000, 4.0),
     ("window", 2.0, 100, 1.0448), ("record", 2.0, 100, 1.0448)],
)  # fmt: skip
def test_a_regression_takes_small_steps_and_smaller_ones_under_strong_noise(
    unit: str, epsilon: float, held: float, expected: float
) -> None:
    data = {"source": "npz:x", "features": 10, "classes": 1, "expected_records": held, "transform": "none"}
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {**data, "windows": [0, 9]},
        "learner": {"model": "ridge"},
        "privacy": {"epsilon": epsilon, "unit": unit},
    }
    assert build_schedule(config_from_tables(tables, "test"), 9).step_size == pytest.approx(expected, rel=1e-4)


def test_contributions_are_rounded_four_times_as_finely_as_a_step_s_noise() -> None:
    chosen = build_schedule(config("clipd2p"), SIZE)
    noise = chosen.step_size / 180 * 0.5 * math.sqrt(48) / gaussian_mu(2.0, 1e-5)
    assert noise / 8 < 2.0**-chosen.share_bits <= noise / 4
    assert build_schedule(config("clipd2p", step_size=1000.0), SIZE).share_bits == 0
    assert build_schedule(config("clipd2p", epsilon=math.inf), SIZE).share_bits == 16
    assert build_schedule(config("clipd2p", share_bits=20), SIZE).share_bits == 20


@pytest.mark.parametrize(
    "learner, fanout, share_bits",
    [
        ({"mixing": "pairwise"}, 1, 16),
        ({"mixing": "push-sum"}, 1, 16),
        ({"fidelity": "paper", "sigma": 0.1}, 1, 40),
        ({"mixing": "pairwise", "fanout": 3, "share_bits": 12}, 3, 12),
        ({"fanout": 1, "share_bits": 12}, 1, 12),
    ],
)
def test_only_contributions_go_to_two_peers_and_are_rounded_by_their_noise(
    learner: dict[str, Any], fanout: int, share_bits: int
) -> None:
    chosen = build_schedule(config("clipd2p", **learner), SIZE)
    assert (chosen.fanout, chosen.share_bits) == (fanout, share_bits)


def with_records(records: float, *, features: int = 64, task: dict[str, Any] | None = None, **more: Any) -> AgentConfig:
    data = {"source": "digits", "features": features, "classes": 10, "expected_records": records}
    epsilon = more.pop("epsilon", 2.0)
    tables = {"agent": {"state": "."}, "data": data, "privacy": {"epsilon": epsilon}, "task": task or {}}
    return config_from_tables({**tables, "learner": {"name": "clipd2p", **more}}, "test")


def test_devices_with_many_records_take_more_steps() -> None:
    counts = [step_count(with_records(records)) for records in (100, 1000, 2000, 3000, 100_000)]
    assert counts == [48, 48, 74, 110, 144]
    assert step_count(with_records(2000, features=784)) == 48, "a larger model has more noise"
    chosen = with_records(3000)
    assert build_schedule(chosen, SIZE).steps == 110
    terms = build_family(chosen).terms
    assert isinstance(terms, GradientTerms)
    assert terms.releases == 110, "the budget is divided among the same number of steps"


def test_the_default_number_of_steps_is_equal_on_all_devices_in_a_fleet() -> None:
    assert {step_count(with_records(3000, epsilon=epsilon)) for epsilon in (0.1, 2.0, 50.0, math.inf)} == {110}
    assert max_steps(with_records(3000)) == 110
    limited = with_records(3000, task={"steps": 60})
    assert (step_count(limited), max_steps(limited)) == (60, 60)


@pytest.mark.parametrize(
    "learner",
    [{"mixing": "pairwise"}, {"mixing": "push-sum"}, {"step_size": 5.0}, {"sampling": "poisson"}, {"model": "mlp"}],
)
def test_the_rule_applies_to_no_other_steps(learner: dict[str, Any]) -> None:
    assert step_count(with_records(100_000, **learner)) == 48
    assert step_count(with_records(100_000, steps=7, **learner)) == 7


@pytest.mark.parametrize(
    "change",
    [
        {"mixing": "push-sum"},
        {"mixing": "pairwise"},
        {"fidelity": "paper"},
        {"sampling": "poisson"},
        {"model": "mlp"},
        {"model": "logistic"},
        {"unit": "device"},
        {"transform": "none"},
        {"transform": "squash(1),centre,unit"},
        {"transform": "standard"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["clipd2p", "adad2p", "constd2p"])
def test_a_private_mean_is_refused_where_it_has_no_proof_or_place(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as exc_info:
        build_family(config(name, centre="private", **change))
    assert str(exc_info.value).startswith("learner.centre: ")
    assert 'centre = "none"' in str(exc_info.value)


@pytest.mark.parametrize("name", ["clipd2p", "adad2p", "constd2p"])
def test_a_private_mean_takes_its_share_of_the_budget(name: str) -> None:
    """The gradients' noise, which step sizes and bounds on moves follow, grows by 1/√0.85."""
    plain, centred = (build_family(config(name, centre=centre, step_size=5.0)) for centre in ("none", "private"))
    signals = plain.signal(), centred.signal()
    assert None not in signals
    noise = [signal.noise / signal.signal for signal in signals if signal is not None]
    assert noise[1] / noise[0] == pytest.approx(0.85**-0.5)
    assert plain.centre() != centred.centre()


def test_a_contribution_that_fits_a_message_alone_is_not_sent_with_a_sum_that_does_not() -> None:
    """Every peer would refuse it."""

    def wide(features: int, **learner: str) -> AgentConfig:
        data = {"source": "digits", "features": features, "classes": 2, "expected_records": 1e5}
        tables = {
            "agent": {"state": "."},
            "data": data | {"transform": "unit,bias(0.3)"},
            "learner": {"name": "clipd2p", **learner},
            "privacy": {"epsilon": 2.0},
        }
        return config_from_tables(tables, "test")

    most = MAX_PARAMETERS // 3 - 1
    assert record_sum(wide(most)) == RecordSum(most + 1, 0.3)
    assert record_sum(wide(most + 1)) is None
    with pytest.raises(ConfigError, match=r"learner\.centre"):
        record_sum(wide(most + 1, centre="private"))


@pytest.mark.parametrize(
    "changed, is_centred",
    [
        ({}, True),
        ({"clipping": "decay"}, True),
        ({"records": 30.0}, True),
        ({"records": 10.0}, False),
        ({"centre": "none"}, False),
        ({"mixing": "push-sum"}, False),
        ({"mixing": "pairwise"}, False),
        ({"unit": "device"}, False),
        ({"model": "mlp"}, False),
        ({"transform": "none"}, False),
        ({"sampling": "poisson"}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("epsilon", [0.1, 8.0, math.inf])
def test_records_are_centred_by_default_where_a_mean_shows_through_the_noise(
    changed: dict[str, Any], is_centred: bool, epsilon: float
) -> None:
    """The rule depends on no device's own budget, so a fleet of mixed budgets decides alike."""
    chosen = config("clipd2p", epsilon, **changed)
    assert chosen.learner.algorithm.resolved["centre"](chosen) == ("private" if is_centred else "none")
