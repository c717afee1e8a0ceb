"""`sottovoce model build`: build a graph that devices can train, from a declaration or another program's model."""

import hashlib
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from sottovoce.cli.output import check_writable, write_binary_file
from sottovoce.errors import ConfigError, UsageError

from sottovoce_lab.cli.model_files import require_models, show_facts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce_lab.models.declaration import Declaration

_TORCH = (".pt2", ".pt", ".pth")


def run_build(
    source: Annotated[
        Path, typer.Argument(help="A declaration (.toml), or a model with its weights from any program (.onnx).")
    ],
    out: Annotated[Path | None, typer.Option(help="Output file for the graph.", show_default="NAME.onnx")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Model name: lowercase letters, digits and hyphens.", show_default="the source's name"),
    ] = None,
    loss: Annotated[
        Literal["softmax", "binary", "hinge", "squared"] | None,
        typer.Option(help="With an .onnx SOURCE: the training loss.", show_default="depends on the last layer"),
    ] = None,
    parameters: Annotated[
        Path | None, typer.Option(help="With an .onnx SOURCE: output npz file for its weights.")
    ] = None,
    start: Annotated[
        Literal["random", "weights", "frozen"],
        typer.Option(
            help="With an .onnx SOURCE: random: devices start from random weights; weights: from the file's, which "
            "must be public; frozen: likewise, and only the last layer is trained."
        ),
    ] = "random",
    classes: Annotated[
        int | None,
        typer.Option(min=2, max=65_536, help="With an .onnx SOURCE: replace its last layer by one for these classes."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Build a graph for training from a model, with losses, predictions and clipped gradient sums as outputs."""
    if source.suffix == ".toml" and (loss or parameters or classes or start != "random"):
        raise UsageError(
            "--loss, --parameters, --start and --classes apply only to an .onnx SOURCE: omit them, because a "
            "declaration specifies its loss and classes, and has no weights"
        )
    _check_source(source)
    require_models()
    from sottovoce_lab.models import checks
    from sottovoce_lab.models.build import graph_bytes

    weights: NDArray[np.float64] | None = None
    frozen = 0
    if source.suffix == ".toml":
        declaration = _load_declaration(source, name)
    else:
        from sottovoce_lab.models.forward import body_tensors, read_forward, with_new_head

        forward = read_forward(checks.forward_file(source), str(source), name or _slug(source.stem), loss)
        if classes is not None:
            forward = with_new_head(forward, classes, str(source))
        if start == "frozen" and not (frozen := body_tensors(forward.declaration)):
            raise ConfigError(f"{source}: the model has one layer with weights, so nothing is left to freeze")
        declaration, weights = forward.declaration, forward.parameters
    target = out or Path(f"{declaration.name}.onnx")
    if target.suffix != ".onnx" or target.absolute() == source.absolute():
        raise UsageError(f"--out {target}: the file name must end in .onnx and differ from SOURCE")
    check_writable("--out", target)
    if parameters is not None:
        check_writable("--parameters", parameters)
    raw = graph_bytes(declaration, None if start == "random" else weights, frozen)
    facts = checks.graph_bytes(raw, str(target)).facts
    if parameters is not None and weights is not None:
        write_binary_file("--parameters", parameters, _npz(declaration, weights))
    write_binary_file("--out", target, raw)
    digest = hashlib.sha256(raw).hexdigest()
    summary = {
        "name": facts.name,
        "file": str(target),
        "features": facts.features,
        "classes": facts.classes,
        "loss": facts.loss,
        "parameters": facts.size,
        "start": start,
        "chunk": facts.chunk,
        "sha256": digest,
    }
    if as_json:
        typer.echo(json.dumps({**summary, "graphs": [f"sha256:{digest}"]}))
        return
    show_facts(summary)
    typer.echo(
        f'\nDevices may load this graph if their configuration lists it:\n\n[vault]\ngraphs = ["sha256:{digest}"]'
    )


def _check_source(source: Path) -> None:
    if source.suffix in _TORCH:
        raise ConfigError(
            f"{source}: PyTorch files are not supported, because they may contain programs: export the model on the "
            'machine where it was made, with torch.onnx.export(module.eval(), (example,), "model.onnx", '
            "opset_version=17), and build from that file"
        )
    if source.suffix not in (".toml", ".onnx"):
        raise UsageError(f"{source}: the file type is not supported: specify a .toml declaration or an .onnx model")


def _load_declaration(source: Path, name: str | None) -> "Declaration":
    """Return the declaration in a file, with the new name if one is specified."""
    import tomlkit

    from sottovoce_lab.models.declaration import parse_declaration, read_declaration

    declaration = read_declaration(source)
    if name is None:
        return declaration
    document = tomlkit.parse(declaration.text)
    document["name"] = name
    return parse_declaration(tomlkit.dumps(document), str(source))


def _slug(stem: str) -> str:
    """Derive a model name from a file stem."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:64] or "model"


def _npz(declaration: "Declaration", weights: "NDArray[np.float64]") -> bytes:
    """Return the bytes of an npz file with all parameters as one vector, and with each tensor under its own name."""
    import numpy as np

    tensors: dict[str, Any] = {}
    offset = 0
    for tensor in declaration.network.parameters:
        tensors[tensor.name] = weights[offset : offset + tensor.size].reshape(tensor.shape)
        offset += tensor.size
    file = io.BytesIO()
    np.savez(file, parameters=weights, **tensors)
    return file.getvalue()
