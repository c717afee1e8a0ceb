"""Take the turns of a shared model one after another, without messages, clocks and ledgers.

All messages of such a fleet arrive, so each device continues from the newest model, in the order of node ids. The
result is that of `testbed.memory`, number for number, in a fraction of its time. Only for variants as published, whose
queries form chains (Jin, He & Dai 2023).
"""

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import apply
from sottovoce.errors import UsageError
from sottovoce.kernels import Kernel
from sottovoce.privacy.api import PrivacyStatement, Query
from sottovoce.privacy.vault import Ledger, SeededNoise
from sottovoce_papers.jin_2023.public.machine import LARGEST, SharedModel, round_to_float32

from sottovoce_lab.published.uncharged import UnchargedVault
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.unsigned import UnsignedProvenance


def take_turns(plan: Plan) -> tuple[NDArray[np.float64], PrivacyStatement]:
    """Run a plan to its end, and return the last shared model, float64[P], and the guarantee.

    Raises:
        UsageError: if the plan is not for chains as published, or has faults.
    """
    learner = plan.family.learner("agent-00000", UnsignedProvenance(), ())[0]
    if (
        not isinstance(learner, SharedModel)
        or learner.schedule.asks == "gradient"
        or plan.config.learner.fidelity != "paper"
        or plan.options.fault_specs
    ):
        raise UsageError(
            "engine = turns: only for chains with fidelity = paper and without faults; use engine = events"
        )
    schedule, model = learner.schedule, learner.initial_state().own
    vaults = _vaults(plan)
    own = [model] * len(vaults)
    for turn in range(schedule.turns):
        for index, vault in enumerate(vaults):
            if schedule.asks == "decisions":
                decision = vault.answer(Query(schedule.learner, "decide", turn, own[index]))
                if not decision[0]:
                    continue  # a local step, which stays in the vault
            end = vault.answer(Query(schedule.learner, "chain", turn, np.concatenate([own[index], model])))
            model = own[index] = round_to_float32(np.clip(end, -LARGEST, LARGEST))
    return model, vaults[0].statement.without_proof(plan.unproved)


def _vaults(plan: Plan) -> list[UnchargedVault]:
    """Return each device's vault, with the records and the noise that it has in `testbed.memory`."""
    options, kernel = plan.options, cast(Kernel, plan.family.kernel)
    seeds = np.random.SeedSequence(options.seed).generate_state(options.agents, np.uint64)
    vaults = []
    for index, (raw, seed) in enumerate(zip(plan.raw, seeds, strict=True)):
        features = apply(plan.transform, raw.features, plan.bounds).astype(kernel.precision, copy=False)
        records = replace(raw, features=features)  # without identities, which no charge needs here
        ledger = Ledger.in_memory(f"agent-{index:05d}", options.budget)
        vaults.append(UnchargedVault(plan.family.terms.context(records, kernel, ledger, SeededNoise(int(seed)))))
    return vaults
