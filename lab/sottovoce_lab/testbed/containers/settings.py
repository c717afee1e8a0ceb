"""Settings for a compose testbed, read from environment variables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sottovoce.errors import UsageError
from sottovoce.learning.registry import DEFAULT

from sottovoce_lab.simulator import NEWSCAST, Faults
from sottovoce_lab.testbed.options import Options

TransportName = Literal["grpc", "mqtt"]

_DEFAULTS = {
    "AGENTS": "12",
    "LEARNER": DEFAULT,
    "DATA": "digits",
    "EPSILON": "2",
    "CYCLES": "60",
    "PERIOD": "2",
    "SEED": "0",
    "TRANSPORT": "grpc,mqtt",
    "METRICS": "no",
}
_PREFIX = "SOTTOVOCE_"
_DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """The container fleet that the environment variables describe.

    Attributes:
        options: the options for `sottovoce testbed`, with peer sampling.
        use: the transports of every agent, which include `mqtt`, because agents find each other through the broker.
        metrics: whether every agent listens for requests for its metrics.
    """

    options: Options
    use: tuple[TransportName, ...]
    metrics: bool

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "ContainerSettings":
        """Read the settings from environment variables.

        The variables are SOTTOVOCE_AGENTS, _LEARNER, _DATA, _EPSILON, _CYCLES, _PERIOD, _SEED, _TRANSPORT and _METRICS.

        Raises:
            UsageError: if a value is invalid; the message names the variable.
        """
        values = {name: environment.get(_PREFIX + name) or default for name, default in _DEFAULTS.items()}
        if values["TRANSPORT"] not in ("grpc,mqtt", "mqtt"):
            raise UsageError(
                f"{_PREFIX}TRANSPORT={values['TRANSPORT']}: choose grpc,mqtt or mqtt, because agents find their peers "
                "through the broker"
            )
        epsilon = _number(values, "EPSILON")
        if not 0 < epsilon < math.inf:
            raise UsageError(f"{_PREFIX}EPSILON={values['EPSILON']}: devices in containers require a finite ε above 0")
        options = Options(
            agents=round(_number(values, "AGENTS")),
            learner=values["LEARNER"],
            fidelity="sound",
            model=None,
            data=values["DATA"],
            transport="mixed",
            epsilon=epsilon,
            delta=_DELTA,
            cycles=round(_number(values, "CYCLES")),
            period=_number(values, "PERIOD"),
            topology=NEWSCAST,
            seed=round(_number(values, "SEED")),
            faults=Faults(),
            fault_specs=[],
            settings={},
        )
        return cls(
            options, ("mqtt",) if values["TRANSPORT"] == "mqtt" else ("grpc", "mqtt"), values["METRICS"] == "yes"
        )


def read_faults(environment: Mapping[str, str]) -> list[str]:
    """Read one agent's message faults from SOTTOVOCE_FAULTS, as whitespace-separated `--fault` specifications.

    Raises:
        UsageError: if a specification is invalid, or specifies a fault that containers do not support.
    """
    specifications = environment.get(_PREFIX + "FAULTS", "").split()
    faults = Faults.parse(specifications)
    if faults != Faults(
        loss=faults.loss,
        duplicate=faults.duplicate,
        delay=faults.delay,
        delay_spread=faults.delay_spread,
        reorder=faults.reorder,
    ):
        raise UsageError(
            f"{_PREFIX}FAULTS={' '.join(specifications)}: containers support only loss, duplicate, delay and reorder; "
            "use the container engine to kill or disconnect containers"
        )
    return specifications


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        return float(values[name])
    except ValueError:
        raise UsageError(f"{_PREFIX}{name}={values[name]}: must be a number, for example {_DEFAULTS[name]}") from None
