"""`sottovoce testbed`: run a fleet of agents on this machine."""

import json
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from sottovoce.errors import ExitCode, UsageError
from sottovoce.learning.registry import DEFAULT

from sottovoce_lab.cli import names
from sottovoce_lab.cli.simulate import limit_blas_threads


def run_testbed(
    agents: Annotated[int, typer.Option(help="Number of agents.")] = 12,
    learner: Annotated[
        str, typer.Option(help="Learning algorithm (docs/reference/learners.md).", autocompletion=names.learners)
    ] = DEFAULT,
    fidelity: Annotated[
        Literal["sound", "paper"],
        typer.Option(help="sound: the strongest correct variant; paper: the algorithm exactly as in the paper."),
    ] = "sound",
    data: Annotated[
        str,
        typer.Option(
            help="digits, breast-cancer, idx:DIR, csv:FILE#label=COLUMN, npz:FILE, meters:FILE#task=forecast.",
            autocompletion=names.data,
        ),
    ] = "digits",
    model: Annotated[
        str | None,
        typer.Option(
            help="softmax, ridge, pegasos, logistic, mlp, mean, mnist-cnn, mnist-mlp, cifar-cnn, resnet-18, meter-tcn, "
            "har-cnn, or a FILE.onnx.",
            show_default="softmax; golf: ridge, or pegasos with fidelity paper; gradient-walk: pegasos",
            autocompletion=names.models,
        ),
    ] = None,
    transport: Annotated[
        Literal["grpc", "mqtt", "mixed", "memory"],
        typer.Option(
            help="grpc, mqtt, mixed: one process per agent; memory: one process, a virtual clock and seeded noise."
        ),
    ] = "grpc",
    epsilon: Annotated[
        float | None, typer.Option(help="Total privacy budget ε; inf for no noise.", show_default="2; push-sum: inf")
    ] = None,
    delta: Annotated[float, typer.Option(help="Total privacy budget δ.")] = 1e-5,
    cycles: Annotated[
        int | None,
        typer.Option(help="Number of cycles per agent.", show_default="60, or as many as the learner's steps need"),
    ] = None,
    period: Annotated[float, typer.Option(help="Seconds between cycles.")] = 0.5,
    topology: Annotated[
        str | None,
        typer.Option(
            help="exponential, ring, star, full, bipartite, random-regular(K), disconnected or newscast.",
            show_default="exponential; rounds, shared models and secure sums: full; --transport mixed: newscast",
            autocompletion=names.topologies,
        ),
    ] = None,
    noise: Annotated[
        Literal["local", "cell"] | None,
        typer.Option(
            help="local: each agent adds the full noise itself; cell: each agent adds a share of the noise, and only "
            "the secure sum is revealed.",
            show_default="local; group-sgd: cell",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the data split only; cryptographic noise is never seeded.")] = 0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="loss=0.3, duplicate=0.05, delay=50ms±20ms, reorder=0.2, partition=0.5@cycle:10-20, "
            "kill=0.33@cycle:20, restart=1@cycle:30, churn=lognormal(2,1), churn=trace:FILE, broker-kill=3s@cycle:20, "
            "vault=2s±1s, dishonest=0.25@flip."
        ),
    ] = None,
    isolate: Annotated[
        Literal["fork", "exec"] | None,
        typer.Option(
            help="fork: start agents as forks of one process; exec: start each agent as a new process.",
            show_default="fork on Linux, otherwise exec",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any other configuration key; can be repeated."),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Also simulate a device alone, secure sums and no noise on the same data, with three seeds each.",
        ),
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Output file for the JSON report.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Output file for all states and messages of a small run; requires --transport memory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the JSON report to standard output.")] = False,
) -> int:
    """Run a fleet of agents on this machine, and report its accuracy and its costs."""
    if noise is not None and any(assignment.startswith("privacy.noise=") for assignment in set_ or ()):
        raise UsageError("--noise and --set privacy.noise set the same value: use only one of them")
    if transport == "memory" or compare:
        limit_blas_threads()
    from sottovoce.cli.output import check_writable, write_text_file

    from sottovoce_lab.cli.table import ConsoleWatcher
    from sottovoce_lab.simulator.trace import MAX_TRACED_CYCLES, Trace
    from sottovoce_lab.testbed import memory, processes
    from sottovoce_lab.testbed.options import parse_settings
    from sottovoce_lab.testbed.plan import plan
    from sottovoce_lab.testbed.run_spec import RunSpec

    options = RunSpec(
        engine=transport,
        agents=agents,
        learner=learner,
        fidelity=fidelity,
        model=model,
        data=data,
        epsilon=epsilon,
        delta=delta,
        cycles=cycles,
        period=period,
        topology=topology,
        seed=seed,
        faults=tuple(fault or ()),
        isolate=isolate,
        settings={**parse_settings(set_ or []), **({} if noise is None else {"privacy.noise": noise})},
    ).options()
    for option, path in (("--report", report), ("--trace", trace)):
        if path is not None:
            check_writable(option, path)
    trace_recorder = None if trace is None else Trace()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # without this, the fleet's keys and records would remain
    with ExitStack() as stack:
        with ConsoleWatcher(quiet=as_json) as watcher:
            planned = plan(options)
            if trace is not None and (transport != "memory" or agents * planned.options.cycles > MAX_TRACED_CYCLES):
                raise UsageError(
                    "--trace requires --transport memory, and the number of agents times the number of cycles must be "
                    f"at most {MAX_TRACED_CYCLES}"
                )
            collect_comparisons = None
            if compare:
                from sottovoce_lab.library.comparisons import start_comparisons

                collect_comparisons = stack.enter_context(start_comparisons(planned))
            result = (
                memory.run(planned, watcher, trace_recorder)
                if transport == "memory"
                else processes.run(planned, watcher)
            )
        document = result.document()
        if not as_json:
            watcher.print_summary(document)
        if collect_comparisons is not None and result.interrupted is None:
            with watcher:
                comparisons = collect_comparisons(partial(watcher.advance, "simulations for the comparison"))
            document["comparisons"] = [comparison.as_dict() for comparison in comparisons]
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    if report is not None:
        write_text_file("--report", report, text)
    if trace is not None and trace_recorder is not None:
        write_text_file("--trace", trace, json.dumps(trace_recorder.document()))
    if "comparisons" in document and not as_json:  # last, so that nothing here can lose the files
        watcher.compare(document)
    return ExitCode.DONE if result.interrupted is None else ExitCode.INTERRUPTED
