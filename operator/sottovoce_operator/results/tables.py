"""Results as text, JSON, CSV and Parquet."""

import csv
import io
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError

from sottovoce_operator.estimate import Estimate
from sottovoce_operator.results.source import Result

SCHEMA = "sottovoce.results/1"
_QUANTILES = {"quantile_P10": -1.2815515655446004, "quantile_P50": 0.0, "quantile_P90": 1.2815515655446004}
"""Names of quantiles as OpenSTEF has them, and those quantiles of the standard normal distribution."""

_MAX_LINES = 400


def describe(result: Result) -> dict[str, Any]:
    """Return the facts about a result that hold for all of its products, JSON-serialisable."""
    opened, document = result.document.opened, result.document
    settings = opened.read_task().settings
    days = opened.days
    return {
        "fleet": opened.fleet,
        "task": settings.get("task.name"),
        "task_digest": opened.read_task().digest.hex(),
        "epoch": opened.epoch,
        "sum": opened.slot,
        "members": opened.members,
        "roster": len(opened.owners),
        "first_day": None if days is None else days[0].isoformat(),
        "last_day": None if days is None else days[1].isoformat(),
        "epsilon": opened.epsilon,
        "delta": opened.delta,
        "unit": settings.get("privacy.unit"),
        "neighbouring": settings.get("privacy.neighbouring"),
        "signatures": len(document.confirmations),
        "signatures_required": result.required,
        "signatures_checked": result.reason is None,
    }


def text_lines(result: Result, products: list[Estimate]) -> Iterator[str]:
    """Yield the lines of the table that people read."""
    facts = describe(result)
    name = f" of task {facts['task']!r}" if facts["task"] else ""
    yield f"result      sum {facts['sum']}{name} in fleet {facts['fleet']}, epoch {facts['epoch']}"
    yield f"homes       {facts['members']} in the sum, {facts['roster']} in the roster"
    if facts["first_day"] is not None:
        yield f"days        {facts['first_day']} to {facts['last_day']}"
    yield f"privacy     {promise(facts)}"
    checked = result.reason or "valid"
    yield f"signatures  {facts['signatures']}, of which {facts['signatures_required']} are required: {checked}"
    for product in products:
        yield ""
        yield from _product_lines(product)


def promise(facts: dict[str, Any]) -> str:
    """Return the guarantee that the facts state, in words."""
    if facts["epsilon"] is None:
        return "none: the sum has no noise"
    return f"ε = {facts['epsilon']:g}, δ = {facts['delta']:g} for each {facts['unit']}, {facts['neighbouring']}"


def _product_lines(product: Estimate) -> Iterator[str]:
    unit = f", in {product.unit}" if product.unit else ""
    yield f"{product.title}{unit}; standard errors of the {', '.join(product.error_sources)}"
    width = max(len("of"), *(len(label) for label in product.labels))
    has_prior = product.prior is not None
    yield f"  {'of':<{width}}  {'value':>12}  {'± error':>12}" + (f"  {'prior':>12}" if has_prior else "")
    for i, label in list(enumerate(product.labels))[:_MAX_LINES]:
        prior = "" if product.prior is None else f"  {product.prior[i]:>12.5g}"
        yield f"  {label:<{width}}  {product.values[i]:>12.5g}  {product.errors[i]:>12.3g}{prior}"
    if len(product.labels) > _MAX_LINES:
        yield f"  … and {len(product.labels) - _MAX_LINES} more; --csv and --json contain all"
    yield f"  root mean square error of the values: {product.error:.3g}"
    if product.prior_error is not None:
        yield f"  root mean square error of the prior:  {product.prior_error:.3g}"
    for sentence in (*product.warnings, *product.remarks):
        yield f"  {sentence}"


def to_document(result: Result, products: list[Estimate]) -> dict[str, Any]:
    """Return the result as one JSON-serialisable document."""
    return {"schema": SCHEMA, **describe(result), "products": [_to_dict(product) for product in products]}


def _to_dict(product: Estimate) -> dict[str, Any]:
    return {
        "name": product.name,
        "unit": product.unit,
        "days": product.days,
        "error": product.error,
        "error_sources": list(product.error_sources),
        "prior_error": product.prior_error,
        "prior_is_better": product.prior_is_better,
        "warnings": list(product.warnings),
        "labels": list(product.labels),
        "times": None if product.times is None else [time.isoformat() for time in product.times],
        "values": product.values.tolist(),
        "errors": product.errors.tolist(),
        "prior": None if product.prior is None else product.prior.tolist(),
        "remarks": list(product.remarks),
    }


def _rows(result: Result, products: list[Estimate]) -> Iterator[dict[str, Any]]:
    facts = describe(result)
    for product in products:
        for i, label in enumerate(product.labels):
            yield {
                "product": product.name,
                "label": label,
                "timestamp": None if product.times is None else product.times[i],
                "value": float(product.values[i]),
                "standard_error": float(product.errors[i]),
                "unit": product.unit,
                "prior": None if product.prior is None else float(product.prior[i]),
                "prior_error": product.prior_error,
                "homes": facts["members"],
                "days": product.days,
                "epsilon": facts["epsilon"],
            }


def to_csv(result: Result, products: list[Estimate]) -> str:
    """Return the values as CSV, one row each, with a header."""
    text = io.StringIO()
    rows = list(_rows(result, products))
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        time = row["timestamp"]
        writer.writerow({**row, "timestamp": "" if time is None else time.isoformat()})
    return text.getvalue()


def write_parquet(path: Path, result: Result, products: list[Estimate]) -> None:
    """Write the values to a Parquet file, with `timestamp` and quantiles named as in OpenSTEF.

    Raises:
        UsageError: if pyarrow is not installed, or the file cannot be written.
    """
    if find_spec("pyarrow") is None:
        raise UsageError("--parquet needs pyarrow: run pip install 'sottovoce[parquet]'")
    import pyarrow
    from pyarrow import parquet

    rows = list(_rows(result, products))
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0]}
    for name, z in _QUANTILES.items():
        columns[name] = [row["value"] + z * row["standard_error"] for row in rows]
    schema = pyarrow.schema(
        [
            pyarrow.field(name, _arrow_type(pyarrow, name))
            for name in ("timestamp", *_QUANTILES, *(name for name in rows[0] if name != "timestamp"))
        ]
    )
    try:
        parquet.write_table(pyarrow.table(columns, schema=schema), path)
    except OSError as error:
        raise UsageError(f"--parquet {path}: cannot be written ({error.strerror or error})") from error


def _arrow_type(pyarrow: Any, name: str) -> Any:
    if name == "timestamp":
        return pyarrow.timestamp("us", tz="UTC")
    if name in ("product", "label", "unit"):
        return pyarrow.string()
    return pyarrow.int64() if name in ("homes", "days") else pyarrow.float64()
