"""`sottovoce model show`: describe and check a graph file."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from sottovoce.errors import ConfigError

from sottovoce_lab.cli.model_files import load_graph, require_models, show_facts

if TYPE_CHECKING:
    from sottovoce_lab.models.checks import GraphFile
    from sottovoce_lab.models.layers.network import Chain


_AS_DECLARED = {
    True: "yes: building the declaration here produces the same bytes",
    False: "no: the graph was altered, or built by another version; build its declaration again before you allow it",
}


def run_show(
    model: Annotated[str, typer.Argument(metavar="FILE|NAME", help="A graph file, or the name of a bundled model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check a graph and show its input, layers, parameters and hash, and whether it runs on this machine."""
    require_models()
    graph = load_graph(model)
    facts = _facts(graph, model)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    lines = {
        "parameters": [f"{name} {'×'.join(map(str, shape))}" for name, shape in facts["parameters"].items()],
        "layers": [_format_layer(layer) for layer in facts["layers"]],
        "input": "×".join(map(str, facts["input"])),
        "as_declared": _AS_DECLARED[facts["as_declared"]],
    }
    show_facts({**facts, **lines})


def _facts(graph: "GraphFile", origin: str) -> dict[str, Any]:
    from sottovoce_lab.models.build import graph_bytes
    from sottovoce_lab.models.declaration import parse_declaration

    facts = graph.facts
    declaration = parse_declaration(facts.declaration, origin)
    frozen = [tensor.name for tensor in declaration.network.parameters[: -len(facts.parameters)]]
    return {
        "name": facts.name,
        "features": facts.features,
        "input": [*declaration.network.input],
        "classes": facts.classes,
        "loss": facts.loss,
        "layers": [*_layers(declaration.network, [])],
        "parameters": {tensor.name: [*tensor.shape] for tensor in facts.parameters},
        "size": facts.size,
        "start": "frozen" if frozen else "weights" if facts.weights else "random",
        "frozen": frozen,
        "chunk": facts.chunk,
        "sha256": graph.digest,
        "as_declared": graph_bytes(declaration, facts.all_weights, len(frozen)) == graph.raw,
        "allowed": _describe_permission(graph.digest),
        "runs_here": _try_to_run(graph, origin),
    }


def _layers(chain: "Chain", enclosing: list[str]) -> Iterator[dict[str, Any]]:
    """Yield each layer with its output shape. A block is followed by its inner layers."""
    import msgspec

    from sottovoce_lab.models.layers.network import Residual

    for stage in chain.stages:
        if isinstance(stage, Residual):
            yield {"within": enclosing, "kind": "residual", "output": [*stage.output]}
            yield from _layers(stage.body, [*enclosing, "layers"])
            yield from _layers(stage.shortcut, [*enclosing, "shortcut"])
        else:
            yield {"within": enclosing, **msgspec.to_builtins(stage.layer), "output": [*stage.output]}


def _format_layer(layer: dict[str, Any]) -> str:
    """Describe a layer's position, kind, settings and output shape in one line."""
    settings = [
        f"{key} {value}"
        for key, value in layer.items()
        if key not in ("within", "kind", "output") and value is not None
    ]
    prefix = "".join(f"{block} > " for block in layer["within"])
    return f"{prefix}{', '.join([layer['kind'], *settings])} → {'×'.join(map(str, layer['output']))}"


def _describe_permission(digest: str) -> str:
    from sottovoce.kernels.onnx.allowlist import stock_hashes

    if digest in stock_hashes().values():
        return "by every vault, because it is bundled with this package"
    return f'by a vault with graphs = ["sha256:{digest}"] under [vault]'


def _try_to_run(graph: "GraphFile", origin: str) -> str:
    """Try the graph in a separate process, because ONNX Runtime crashes on some machines."""
    from sottovoce.kernels.onnx.allowlist import Graph
    from sottovoce.kernels.onnx.probe import probe_graph

    try:
        chunk = probe_graph(Graph(origin, graph.digest, graph.raw))
    except ConfigError as error:
        return f"no: {error}"
    return f"yes, {chunk} examples at a time"
