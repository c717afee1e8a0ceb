"""`sottovoce plugins`: list the plug-ins that other packages provide."""

import json
from typing import Annotated

import typer

from sottovoce.errors import ExitCode


def run_plugins(
    check: Annotated[bool, typer.Option("--check", help="Import each plug-in and report broken ones.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int | None:
    """List the plug-ins that other packages provide. Imports them only with --check."""
    from sottovoce.cli.plugin_kinds import all_plugins, problem_of

    found = all_plugins()
    problems = {plugin: problem for plugin in found if check and (problem := problem_of(plugin)) is not None}
    if as_json:
        rows = [
            {
                "kind": plugin.kind,
                "name": plugin.name,
                "package": plugin.package,
                "object": plugin.value,
                **({"problem": problems.get(plugin)} if check else {}),
            }
            for plugin in found
        ]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif not found:
        typer.echo("no package provides a plug-in; docs/how-to/plug-ins.md explains how a package does")
    else:
        width = max(len(plugin.kind) for plugin in found), max(len(plugin.name) for plugin in found)
        for plugin in found:
            problem = problems.get(plugin)
            state = "" if not check else "  works" if problem is None else f"  {problem}"
            typer.echo(f"{plugin.kind:{width[0]}}  {plugin.name:{width[1]}}  {plugin.package}{state}")
    return ExitCode.PLUGIN if problems else None
