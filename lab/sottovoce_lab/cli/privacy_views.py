"""`sottovoce privacy views`: print ε against neighbours, coalitions and the recipient of the average."""

import csv
import json
import math
from pathlib import Path
from typing import Annotated, Literal

import typer
from sottovoce.errors import PrivacyError, UsageError

_ASSUMPTIONS = {
    "local": "reads every message of the agent, whatever else it does or knows",
    "pairwise": "one agent that follows the protocol and sees its own messages only",
    "coalition": "these agents follow the protocol and pool everything they see",
    "central": "sees nothing but the average of all final models",
}


_MAX_AGENTS, _MAX_ROUNDS = 200, 200


def run_views(
    source: Annotated[int, typer.Option("--from", help="Number of the attacked agent, counted from 0.")],
    seen_by: Annotated[str, typer.Option(help="The colluding observers, for example 2 or 0,2.")],
    topology: Annotated[
        str, typer.Option(help="ring, complete, path, star, or a CSV file with two agents per line.")
    ] = "ring",
    agents: Annotated[
        int | None, typer.Option(help="Number of agents; for a file, by default its largest number plus one.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Number of gossip rounds.")] = 10,
    noise: Annotated[
        Literal["fresh", "once"], typer.Option(help="Add fresh noise in every round, or add noise once.")
    ] = "fresh",
    sigma: Annotated[
        float | None, typer.Option(help="Noise scale of one release, in units of the sensitivity; 1 by default.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of one release at δ, instead of --sigma.")] = None,
    delta: Annotated[float, typer.Option(help="δ at which ε is computed.")] = 1e-5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print an agent's ε against observers that see all of its messages, some of them, or only the average."""
    from sottovoce.privacy.accounting.gaussian import gaussian_epsilon, gaussian_mu

    from sottovoce_lab.simulator import views as gossip

    if sigma is not None and epsilon is not None:
        raise UsageError("--sigma and --epsilon both set the noise scale; use only one of them")
    if not 0 < delta < 1:
        raise UsageError(f"--delta {delta:g}: must be between 0 and 1")
    if sigma is not None and not 0 < sigma < math.inf:
        raise UsageError(f"--sigma {sigma:g}: must be a positive number")
    if not 1 <= rounds <= _MAX_ROUNDS:
        raise UsageError(f"--rounds {rounds}: must be from 1 to {_MAX_ROUNDS}")
    observers = _observers(seen_by)
    try:
        mu = gaussian_mu(epsilon, delta) if epsilon is not None else 1 / (sigma or 1.0)
        edges, agent_count = _edges(topology, agents)
        mixing = gossip.metropolis(edges, agent_count)
        view_costs = gossip.views(mixing, rounds=rounds, noise=noise, of=source, seen_by=observers)
    except (PrivacyError, ValueError) as error:
        raise UsageError(str(error)) from error
    observer_view = "pairwise" if len(observers) == 1 else "coalition"
    costs = {
        "local": view_costs.local_loss,
        observer_view: view_costs.observer_loss,
        "central": view_costs.central_loss,
    }
    document = {
        name: {
            "mu_squared": _finite(squared * mu * mu),
            "epsilon": _finite(gaussian_epsilon(math.sqrt(squared) * mu, delta)),
            "assumption": _ASSUMPTIONS[name],
        }
        for name, squared in costs.items()
    }
    if as_json:
        typer.echo(json.dumps({**document, "delta": delta, "rounds": rounds, "noise": noise}))
        return
    for name, view in document.items():
        squared, cost = ("unbounded" if view[key] is None else f"{view[key]:.4g}" for key in ("mu_squared", "epsilon"))
        typer.echo(f"{name:9} μ² {squared}, ε {cost} at δ = {delta:g}: {view['assumption']}")


def _observers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--seen-by {text}: must be a list of agent numbers, for example 0,2") from error


def _edges(name: str, agents: int | None) -> tuple[list[tuple[int, int]], int]:
    from sottovoce_lab.simulator.views import topology

    if not name.endswith(".csv"):
        count = _check_agent_count(8 if agents is None else agents)
        return topology(name, count), count
    try:
        with Path(name).open(newline="", encoding="utf-8") as lines:
            edges = [(int(a), int(b)) for a, b in (row for row in csv.reader(lines) if row)]
    except (OSError, ValueError) as error:
        raise UsageError(f"--topology {name}: not a file with two agent numbers per line: {error}") from error
    if not edges:
        raise UsageError(f"--topology {name}: the file has no edges")
    return edges, _check_agent_count(1 + max(max(edge) for edge in edges) if agents is None else agents)


def _check_agent_count(agents: int) -> int:
    if not 1 <= agents <= _MAX_AGENTS:
        raise UsageError(f"--agents {agents}: must be from 1 to {_MAX_AGENTS}, because the views are computed exactly")
    return agents


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None
