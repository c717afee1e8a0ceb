"""`sottovoce advise`: recommend a learner for a fleet."""

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # importing this loads the simulator
    from sottovoce_lab.library.advice import Recommendation

_MAX_OTHERS = 4


def run_advise(
    records: Annotated[int, typer.Option(help="Number of records per device.")] = 120,
    agents: Annotated[int, typer.Option(help="Number of devices in the fleet.")] = 12,
    features: Annotated[int, typer.Option(help="Number of features per record.")] = 64,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    epsilon: Annotated[float, typer.Option(help="ε of each device's budget.")] = 2.0,
    unlike: Annotated[
        bool, typer.Option("--unlike", help="Assume that the class distribution differs between devices.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Recommend a learner for a fleet of this shape: at once by a rule, then by simulations (one to four minutes)."""
    from sottovoce_lab.cli.simulate import limit_blas_threads

    limit_blas_threads()
    from sottovoce_lab.cli.run_bar import run_bar
    from sottovoce_lab.library.advice import Shape, advise
    from sottovoce_lab.testbed.better_choice import best_learner

    started = time.monotonic()
    shape = Shape(records, agents, features, classes, epsilon, unlike)
    name, reason = best_learner(agents)
    typer.echo(f"first answer: {name}, because {reason}. Simulations refine it; Ctrl-C ends them early.", err=True)
    completed = [0, 0]
    with run_bar() as progress:

        def note_progress(done: int, total: int, learner: str) -> None:
            completed[:] = done, total
            progress(done, total, learner)

        recommendations = advise(shape, note_progress)
    seconds = time.monotonic() - started
    best = recommendations[0]
    document: dict[str, Any] = {
        "schema": "sottovoce.advice/1",
        "learner": best.learner,
        "settings": dict(best.settings),
        "accuracy_mean": best.mean,
        "interval": list(best.interval),
        "majority_class": 1 / classes,
        "promise": best.promise,
        "one_member": best.one_member,
        "wire_bytes": best.wire_bytes,
        "seconds": seconds,
        "completed_runs": completed[0],
        "runs": completed[1],
        "all": [
            {
                "learner": recommendation.learner,
                "accuracy_mean": recommendation.mean,
                "interval": list(recommendation.interval),
            }
            for recommendation in recommendations
        ],
    }
    if as_json:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    lines = {
        "learner": best.learner,
        "settings": ", ".join(f"{key} = {value}" for key, value in best.settings.items()),
        "accuracy": f"{best.interval[0]:.2f} to {best.interval[1]:.2f}, depending on how separable the classes are; "
        f"guessing achieves {1 / classes:.2f}",
        "promise": best.promise,
        "one member": best.one_member,
        **({} if best.local else {"local noise": _describe_best_local(recommendations)}),
        "traffic": f"{best.wire_bytes / 1024:,.0f} KiB from each device",
        "others": "; ".join(
            f"{recommendation.learner} {recommendation.mean - best.mean:+.3f}"
            for recommendation in recommendations[1 : 1 + _MAX_OTHERS]
            if recommendation.accuracies.keys() == best.accuracies.keys()  # means over the same difficulties
        ),
        "simulated": f"{shape.simulated_size[0]} devices with {shape.simulated_size[1]} records each, "
        f"{completed[0]} of {completed[1]} runs in {seconds:.0f} s",
    }
    for name, text in lines.items():
        typer.echo(f"{name:11} {text}")


def _describe_best_local(recommendations: "list[Recommendation]") -> str:
    """Describe the best learner whose protection of a device depends only on that device's own noise."""
    recommendation = next(recommendation for recommendation in recommendations if recommendation.local)
    low, high = recommendation.interval
    return f"{recommendation.learner}, {low:.2f} to {high:.2f}, protects each device regardless of the other devices"
