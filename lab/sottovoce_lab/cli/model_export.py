"""`sottovoce model export`: export an agent's public model for other programs."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from sottovoce.cli.model_public import ConfigFile, LoadedModel, load_public_model
from sottovoce.cli.output import check_writable, write_binary_file
from sottovoce.errors import UsageError
from sottovoce.privacy.accounting.gaussian import format_rounded_up

from sottovoce_lab.cli.model_files import require_models

if TYPE_CHECKING:
    from sottovoce_lab.models.export import PublicModel

SCHEMA = "sottovoce.export/1"


def run_export(
    state: Annotated[Path, typer.Option("--state", help="The agent's state directory.")],
    out: Annotated[Path, typer.Option(help="Output file: .onnx; for scikit-learn, .json or .npz.")],
    format_: Annotated[
        Literal["onnx", "sklearn"],
        typer.Option("--format", help="onnx: a model for prediction; sklearn: the coefficients of a linear model."),
    ] = "onnx",
    config: ConfigFile = None,
) -> None:
    """Export an agent's current model; this has no privacy cost, because the model is already public."""
    suffixes = (".onnx",) if format_ == "onnx" else (".json", ".npz")
    if out.suffix not in suffixes:
        raise UsageError(f"--out {out}: with --format {format_}, the file name must end in {' or '.join(suffixes)}")
    check_writable("--out", out)
    require_models()
    from sottovoce_lab.models import export as exports

    model = load_public_model(state, config)
    facts = _facts(model)
    if format_ == "onnx":
        from sottovoce.data.transform import parse_steps

        steps, bounds = parse_steps(model.description.transform), model.description.declared_bounds()
        raw = exports.export_model(public_model(model), steps, bounds, facts).SerializeToString(deterministic=True)
    else:
        raw = _encode_document({**exports.coefficients(public_model(model)), "description": facts}, out)
    write_binary_file("--out", out, raw)
    spent = facts["privacy"].get("spent_epsilon")
    spent_text = "no ε" if spent is None else f"ε {format_rounded_up(spent)} spent"
    typer.echo(
        f"{out}: {facts['model']} of {facts['learner']}, cycle {facts['cycle']}; {spent_text}; "
        "exporting costs no budget"
    )


def public_model(model: LoadedModel) -> "PublicModel":
    """Return a loaded model with its declaration and, of a graph with frozen layers, with their weights."""
    import numpy as np
    from sottovoce.learning.model_names import has_graph

    from sottovoce_lab.cli.model_files import load_graph
    from sottovoce_lab.models.declaration import parse_declaration
    from sottovoce_lab.models.export import PublicModel

    description, declaration, parameters = model.description, None, model.parameters
    if has_graph(description.model):
        facts = load_graph(description.model).facts
        declaration = parse_declaration(facts.declaration, description.model)
        parameters = np.append(facts.frozen_weights, parameters).astype(np.float64)
    return PublicModel(
        name=description.model,
        parameters=parameters,
        columns=description.columns,
        classes=description.classes,
        hidden=description.hidden,
        declaration=declaration,
    )


def _facts(model: LoadedModel) -> dict[str, Any]:
    """Return the facts about the model that the exported file includes."""
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(model.description)
    del facts["hidden"]
    return {**facts, "schema": SCHEMA, "model": Path(model.description.model).stem, "cycle": model.cycle}


def _encode_document(document: dict[str, Any], out: Path) -> bytes:
    if out.suffix == ".json":
        return (json.dumps(document, ensure_ascii=False) + "\n").encode()
    import numpy as np

    file = io.BytesIO()
    arrays: dict[str, Any] = {
        key: np.array(value) for key, value in document.items() if key.endswith("_") or key == "estimator"
    }
    np.savez(file, **arrays, description=np.array(json.dumps(document["description"], ensure_ascii=False)))
    return file.getvalue()
