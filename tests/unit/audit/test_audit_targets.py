"""Audit of every mechanism in seconds: sound ones are not refuted, and learners run as shipped."""

import json

import numpy as np
import pytest
from sottovoce.errors import PrivacyError, UsageError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce_lab.auditor import LEARNERS, MECHANISMS, audit
from sottovoce_lab.auditor.games import play_canary_game
from sottovoce_lab.auditor.subject import observe_new_device
from sottovoce_lab.auditor.targets.scaled import ScaledNoiseSums

from tests.mutations import mutants
from tests.support.command import run_here

TRIALS = 100


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_audited(name: str) -> None:
    outcome = audit("mechanism", name, trials=TRIALS)
    result = outcome.as_dict()
    assert json.loads(json.dumps(result)) == result
    assert outcome.verdict == ("refuted" if name == "adad2p" else f"not refuted at {TRIALS} trials")
    assert (result["seen"], result["epsilon_stated"]) == ("wire" if name == "cell-sum" else "release", 2.0)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_learner_runs_as_shipped(name: str) -> None:
    """A peer's reconstruction equals the vault's release: noise with the stated distribution around the stated sum."""
    subject = LEARNERS[name, "sound"](2.0, 1e-5)
    usual = {"clipping": "full", "deadline": "poisson"}  # for push-sum, and for rounds
    sampling = next((drawn for key, drawn in usual.items() if key in ALGORITHMS[name].keys), None)
    sampling = {"without-replacement": "blocks", "with-replacement": "poisson"}.get(name, sampling)
    assert subject.public_parameters.get("sampling") == sampling
    is_centred = name in {"clipd2p", "adad2p", "constd2p"}
    assert subject.public_parameters.get("record_sums") == (1 if is_centred else None)
    if subject.budget.epsilon is not None:
        records = subject.worlds()["huge"]
        assert min(subject.p_values(records, observe_new_device(subject, records)).values()) > 1e-6


def test_audit_refutes_adad2p_from_one_message() -> None:
    """The message's length reveals the gradient's length; and a zero gradient gets no noise."""
    subject = ScaledNoiseSums(1.0, 1e-5)
    worlds = subject.worlds()
    longer = subject.p_values(worlds["a tenth longer"], observe_new_device(subject, worlds["a tenth longer"]))
    assert longer["scale"] < 1e-3, "expected: z = 9, give or take 1.2"
    assert not observe_new_device(subject, worlds["zero"]).values.any()
    outcome = audit("mechanism", "adad2p", epsilon=1.0, trials=200)
    assert outcome.epsilon_lower_bound > 2
    assert outcome.statement.epsilon == 1.0
    assert outcome.statement.status == "refuted"


def test_adad2p_is_charged_as_infinite_and_never_guaranteed() -> None:
    subject = ScaledNoiseSums(1.0, 1e-5)
    record = subject.worlds()["length 1"]
    vault = subject.vault(record, Ledger.in_memory("audited", subject.budget))
    subject.observe(vault, 1)
    assert vault.spending().promised_epsilon is None
    vault.close()
    with pytest.raises(PrivacyError, match="fidelity = sound"):
        subject.vault(record, Ledger.in_memory("audited", Budget(1.0, 1e-5, "record", "replace-one")))


def test_canaries_alone_reveal_half_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """μ = 1.003 for 0.5015: with 4,096 canaries per world, the bound is 10 of its deviations above the claim."""
    mutants.noise_halved(monkeypatch)
    subject = MECHANISMS["discrete-gaussian"](2.0, 1e-5)
    apart, _ = play_canary_game(subject, 2.0, 8192, np.random.default_rng(0), 1e-6, 0.05)
    assert apart.refuted
    assert apart.epsilon_lower_bound is not None
    assert apart.epsilon_lower_bound > 3


def test_the_command_prints_one_document_and_exits_with_its_verdict() -> None:
    completed = run_here("privacy", "audit", "--mechanism", "k-norm", "--trials", 500, "--json")
    result = json.loads(completed.out)
    assert (completed.code, result["schema"], result["verdict"]) == (
        0,
        "sottovoce.audit/1",
        "not refuted at 500 trials",
    )
    assert result["epsilon_stated"] == 2.0
    assert 0 < result["epsilon_lower_bound"] < 4
    assert "running game: canaries" in completed.err
    refuted = run_here("privacy", "audit", "--mechanism", "adad2p", "--trials", 50)
    assert refuted.code == 5
    assert "verdict: refuted" in refuted.out


@pytest.mark.parametrize(
    "arguments, named",
    [
        (("--mechanism", "none-such"), "k-norm"),
        (("--learner", "none-such"), "gradient-walk (paper)"),
        (("--learner", "clipd2p", "--fidelity", "paper"), "clipd2p (sound)"),
        (("--mechanism", "laplace", "--learner", "golf"), "--mechanism"),
        ((), "--learner"),
        (("--mechanism", "laplace", "--fidelity", "paper"), "--fidelity"),
        (("--mechanism", "laplace", "--epsilon", "0"), "ε = 0"),
    ],
    ids=str,
)
def test_an_unknown_target_is_a_usage_error(arguments: tuple[str, ...], named: str) -> None:
    completed = run_here("privacy", "audit", *arguments)
    assert completed.code == 2
    assert named in completed.err


def test_an_impossible_claim_is_refused() -> None:
    with pytest.raises(UsageError, match=r"δ.*claim"):
        audit("mechanism", "laplace", delta=1.0)
