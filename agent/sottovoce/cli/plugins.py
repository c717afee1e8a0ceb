"""`sottovoce plugins`: list the plug-ins that other packages provide."""

import json
from typing import Annotated

import typer

from sottovoce.errors import ExitCode


def run_plugins(
    check: Annotated[
        bool, typer.Option("--check", help="Load each plug-in, play each learner, and report broken ones.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int | None:
    """List the plug-ins that other packages provide. Loads them only with --check."""
    from sottovoce.cli.plugin_kinds import all_plugins, find_caveat, find_problem

    plugins = all_plugins()
    results = {plugin: find_problem(plugin) for plugin in plugins} if check else {}
    problems = {plugin: problem for plugin, problem in results.items() if problem is not None}
    if as_json:
        rows = [
            {
                "kind": plugin.kind,
                "name": plugin.name,
                "package": plugin.package,
                "object": plugin.value,
                **({"problem": problems.get(plugin)} if check else {}),
            }
            for plugin in plugins
        ]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif not plugins:
        typer.echo("no installed package provides a plug-in; docs/how-to/plug-ins.md explains how to write one")
    else:
        width = max(len(plugin.kind) for plugin in plugins), max(len(plugin.name) for plugin in plugins)
        for plugin in plugins:
            problem = problems.get(plugin)
            caveat = find_caveat(plugin) if check and problem is None else None
            works = "  works" + (f"; not proved: {caveat}" if caveat else "")
            state = "" if not check else works if problem is None else f"  {problem}"
            typer.echo(f"{plugin.kind:{width[0]}}  {plugin.name:{width[1]}}  {plugin.package}{state}")
    return ExitCode.PLUGIN if problems else None
