"""The audit has teeth: it catches every mutant below, and nothing else.

False alarms: an audit calls a sound target refuted with a probability of 1e-6 at most (`SIGNIFICANCE`), so all the
audits of sound code here, nine of them, fail by chance once in 110,000 runs.

Misses: no audit here is near its threshold, a p-value of 1.4e-7. What decides, for the weakest mutants:

- Scale. A sum of n squared normal numbers, each a quarter of what it should be, has a p-value of
  exp(-(n/2)(ln 4 - 3/4)) = exp(-0.32 n), here with n from 512 (chains) to 2,048: e^-160 or less; that it is as large
  as would be needed to pass, within 6.5 √(2/n) of the right one, has a probability below e^-100. n Laplace numbers at
  half their scale give exp(-n (ln 2 - 1/2)) = exp(-0.19 n), with n = 768 for the walk and 1,536 for records: below
  e^-140.
- Place. A clip that is forgotten or taken of the batch moves one number by 25 σ or more: a p-value of e^-300, and a
  miss when noise takes back 19 σ: below 1e-80.
- A cap that is never left: 64 releases of 64 in it, where two in three belong: 3e-10 after Bonferroni, every time.
- Off the grid: each of 4,600 numbers is on it with probability 2^-24.
- Fresh noise, noise where there should be none, silence: certain, unless hundreds of integers coincide.
"""

import pytest
from sottovoce.audit import audit

from tests.mutations import mutants
from tests.mutations.mutants import Mutant

TRIALS = 256

GAUSSIAN, CLIPD2P = ("mechanism", "discrete-gaussian"), ("learner", "clipd2p")
LAPLACE, PRIVUNIT, TWO_PART = ("mechanism", "laplace"), ("mechanism", "privunit"), ("mechanism", "krr-privunit")
WALK, GOLF = ("learner", "gradient-walk"), ("learner", "golf")
STREAM, CHAIN = ("mechanism", "stream"), ("mechanism", "chain")

Target = tuple[str, str]

CASES: list[tuple[Mutant, Target, str]] = [
    (mutants.noise_halved, GAUSSIAN, "noise"),
    (mutants.noise_halved, CLIPD2P, "noise"),
    (mutants.noise_halved, LAPLACE, "noise"),
    (mutants.noise_halved, WALK, "noise"),
    (mutants.noise_halved, STREAM, "noise"),
    (mutants.noise_halved, CHAIN, "noise"),
    (mutants.variance_for_deviation, CLIPD2P, "noise"),
    (mutants.sensitivity_halved, CLIPD2P, "noise"),
    (mutants.sensitivity_halved, LAPLACE, "noise"),
    (mutants.sensitivity_halved, WALK, "noise"),
    (mutants.noise_follows_data, CLIPD2P, "noise"),
    (mutants.clip_forgotten, CLIPD2P, "noise"),
    (mutants.batch_clipped, CLIPD2P, "noise"),
    (mutants.mean_clipped, CLIPD2P, "noise"),
    (mutants.zero_sum_exact, CLIPD2P, "noise"),
    (mutants.always_in_the_cap, PRIVUNIT, "noise"),
    (mutants.always_in_the_cap, TWO_PART, "noise"),
    (mutants.single_number_exact, GAUSSIAN, "noise of a single number"),
    (mutants.single_number_exact, LAPLACE, "noise of a single number"),
    (mutants.empty_batch_silent, CLIPD2P, "books"),
    (mutants.exhausted_exact, GAUSSIAN, "books"),
    (mutants.exhausted_exact, WALK, "books"),
    (mutants.fresh_on_retry, CLIPD2P, "books"),
    (mutants.fresh_on_retry, GOLF, "books"),
    (mutants.fresh_for_each_peer, GOLF, "books"),
    (mutants.accountant_reset, CLIPD2P, "books"),
    (mutants.accountant_reset, GOLF, "books"),
    (mutants.noise_repeated, CLIPD2P, "books"),
    (mutants.float_noise, LAPLACE, "low bits"),
]


@pytest.mark.parametrize(
    "mutant, target, game", CASES, ids=[f"{mutant.__name__}-{name}" for mutant, (_, name), _ in CASES]
)
def test_it_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: Mutant, target: Target, game: str) -> None:
    mutant(monkeypatch)
    outcome = audit(*target, trials=TRIALS)
    caught = {finding.game for finding in outcome.findings if finding.refuted}
    assert game in caught
    assert outcome.verdict == "refuted"


@pytest.mark.parametrize("target", sorted({target for _, target, _ in CASES}), ids=lambda target: target[1])
def test_sound_code_is_not(target: Target) -> None:
    outcome = audit(*target, trials=TRIALS)
    assert not outcome.refuted, outcome.as_dict()
