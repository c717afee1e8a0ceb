"""What goes wrong between agents, and when agents die: the `--fault` specifications.

loss=P              each message, and each confirmation, is lost with probability P
duplicate=P         each message arrives twice with probability P
delay=MEAN±SPREAD   each message takes MEAN±SPREAD, uniformly, for example 50ms±20ms; SPREAD ≤ MEAN, or left out
kill=P@cycle:N      a share P of the agents is killed (kill -9) when the fleet reaches cycle N
restart=P@cycle:N   a share P of the killed agents comes back, with its state, at cycle N

Each at most once; cycles count from 1.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from sottovoce.errors import UsageError

_KINDS = {
    "loss": "loss=0.3",
    "duplicate": "duplicate=0.05",
    "delay": "delay=50ms±20ms",
    "kill": "kill=0.33@cycle:20",
    "restart": "restart=1@cycle:30",
}
_DURATION = r"([0-9]+(?:\.[0-9]+)?)(ms|s)"


@dataclass(frozen=True, slots=True)
class AtCycle:
    """A share of the agents, and the cycle at which something happens to them."""

    share: float
    cycle: int


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of a run. Probabilities from 0 to 1, times in seconds."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    delay_spread: float = 0.0
    kill: AtCycle | None = None
    restart: AtCycle | None = None

    @property
    def on_messages(self) -> bool:
        """Whether any message is touched."""
        return bool(self.loss or self.duplicate or self.delay)

    @classmethod
    def parse(cls, specifications: Sequence[str]) -> "Faults":
        """Faults from `--fault` specifications.

        Raises:
            UsageError: one of them is not understood; the message shows an example.
        """
        faults = cls()
        for specification in specifications:
            faults = faults._with(specification)
        kinds = [specification.partition("=")[0] for specification in specifications]
        if repeated := [kind for kind in kinds if kinds.count(kind) > 1]:
            raise UsageError(f"--fault {repeated[0]}=… is given twice: keep one, like {_KINDS[repeated[0]]}")
        if faults.restart and (not faults.kill or faults.restart.cycle < faults.kill.cycle):
            raise UsageError(
                "--fault restart=… needs a --fault kill=… at an earlier cycle, or nobody is there to come back: "
                f"write for example --fault {_KINDS['kill']} --fault {_KINDS['restart']}"
            )
        return faults

    def _with(self, specification: str) -> "Faults":
        kind, _, value = specification.partition("=")
        if kind not in _KINDS:
            near = get_close_matches(kind, _KINDS, 1)
            forms = [_KINDS[near[0]]] if near else _KINDS.values()
            raise UsageError(f"--fault {specification}: unknown fault `{kind}`; write it like {', '.join(forms)}")
        wrong = UsageError(f"--fault {specification}: write it like {_KINDS[kind]}")
        if kind in ("loss", "duplicate"):
            probability = _probability(value, wrong)
            if kind == "loss" and probability == 1:
                raise UsageError(
                    f"--fault {specification}: if every message is lost nothing can be learnt; "
                    f"stay below 1, like {_KINDS[kind]}"
                )
            return replace(self, loss=probability) if kind == "loss" else replace(self, duplicate=probability)
        if kind == "delay":
            match = re.fullmatch(rf"{_DURATION}(?:(?:±|\+-){_DURATION})?", value)
            if not match:
                raise wrong
            mean, spread = _seconds(match[1], match[2]), _seconds(match[3] or "0", match[4] or "s")
            if spread > mean:
                raise UsageError(
                    f"--fault {specification}: a message cannot arrive before it is sent; "
                    f"let the spread be at most the mean, like {_KINDS[kind]}"
                )
            return replace(self, delay=mean, delay_spread=spread)
        match = re.fullmatch(r"([^@]+)@cycle:([0-9]*[1-9][0-9]*)", value)
        if not match:
            raise wrong
        moment = AtCycle(_probability(match[1], wrong), int(match[2]))
        return replace(self, kill=moment) if kind == "kill" else replace(self, restart=moment)


def _probability(text: str, wrong: UsageError) -> float:
    if not re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e-[0-9]+)?", text) or not 0 <= float(text) <= 1:
        raise wrong
    return float(text)


def _seconds(number: str, unit: str) -> float:
    return float(number) * (0.001 if unit == "ms" else 1.0)
