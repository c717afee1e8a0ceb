"""`sottovoce privacy dossier`: write a device's privacy dossier."""

import json
from pathlib import Path
from typing import Annotated

import typer
from sottovoce import __version__
from sottovoce.errors import ConfigError


def run_dossier(
    config: Annotated[Path, typer.Option("--config", help="The device's configuration file.")],
    out: Annotated[Path, typer.Option("--out", help="Directory for dossier.md and dossier.json; created if missing.")],
) -> None:
    """Write a device's privacy dossier for an auditor or a data-protection officer."""
    from sottovoce.cli.privacy_explain import open_ledger
    from sottovoce.config import load
    from sottovoce.node.task_activator import active_configuration

    from sottovoce_operator.reports.dossier import build_dossier, render_markdown

    settings = load(config)
    with open_ledger(settings) as (ledger, path):
        document = build_dossier(active_configuration(settings, ledger), ledger, str(path), __version__)
    files = {
        "dossier.md": render_markdown(document),
        "dossier.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written ({error.strerror}): choose another directory for --out") from error
    for name in files:
        typer.echo(out / name)
