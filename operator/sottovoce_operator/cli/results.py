"""`sottovoce results`: show the results of a fleet's secure sums, write them to files, and verify such files."""

import json
from pathlib import Path
from typing import Annotated

import typer
from sottovoce.errors import NetworkError, UsageError
from typer.core import TyperGroup


class _ShowsByDefault(TyperGroup):
    """A group in which `sottovoce results FILE` and `sottovoce results --state DIRECTORY` mean `results show …`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert `show` in front of arguments that begin with no command."""
        begins_with_command = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if begins_with_command or not args else ["show", *args])


app = typer.Typer(
    help="Show, write and verify the results of a fleet's secure sums.", no_args_is_help=True, cls=_ShowsByDefault
)


@app.callback()
def _results() -> None:
    """Show, write and verify the results of a fleet's secure sums."""


@app.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Result file, written by --out, instead of a device.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file of a running device.")] = None,
    state: Annotated[Path | None, typer.Option(help="Its state directory, instead of --config.")] = None,
    epoch: Annotated[
        int | None, typer.Option(help="Epoch of the fleet task.", show_default="that of the newest result")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the values as CSV.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write the values to this Parquet file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures to this file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result with its signatures to this file.")] = None,
) -> None:
    """Show a result: each product's values with their standard errors, beside the public prior."""
    from sottovoce.cli.output import write_binary_file, write_text_file

    from sottovoce_operator.results import tables
    from sottovoce_operator.results.estimates import estimates
    from sottovoce_operator.results.source import find_state, read_from_device, read_from_file

    if file is not None and (config, state) != (None, None):
        raise UsageError("specify one of FILE, --config FILE and --state DIRECTORY")
    if as_json and as_csv:
        raise UsageError("specify one of --json and --csv")
    result = read_from_file(file) if file is not None else read_from_device(find_state(config, state), epoch)
    if out is not None:
        if result.reason is not None and file is None:
            raise NetworkError(f"--out {out}: {result.reason}")
        write_binary_file("--out", out, result.document.encoding)
    products = estimates(result.document.opened)
    if parquet is not None:
        tables.write_parquet(parquet, result, products)
    if html is not None:
        from sottovoce_operator.results.page import result_page

        write_text_file("--html", html, result_page(result, products))
    if as_json:
        typer.echo(json.dumps(tables.to_document(result, products), ensure_ascii=False))
    elif as_csv:
        typer.echo(tables.to_csv(result, products), nl=False)
    elif (out, parquet, html) == (None, None, None):
        for line in tables.text_lines(result, products):
            typer.echo(line)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Result file, written by --out.")],
    fleet: Annotated[Path, typer.Option(help="The fleet's certificate: ca.pem of the fleet or of any of its devices.")],
    revoked: Annotated[
        Path | None, typer.Option(help="The fleet's revocation list, if it is newer than the one in the file.")
    ] = None,
    task: Annotated[
        Path | None,
        typer.Option(help="A task or a device's configuration: refuse a result of any other task."),
    ] = None,
    signers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Demand at least this many signatures, even if the task demands fewer.",
            show_default="3 if neither the fleet nor --task vouches for the task",
        ),
    ] = None,
) -> None:
    """Check that enough members of the fleet signed exactly this result."""
    from sottovoce_operator.results.verification import verify_file

    verified = verify_file(file, fleet, revoked, task, signers)
    signatures = verified.signatures
    typer.echo(
        f"signed by {len(signatures.signers)} members, of which {signatures.required} are required; opened on "
        f"{signatures.opened_on}"
    )
    if signatures.revoked:
        typer.echo(f"not counted: the signatures of {len(signatures.revoked)} members that the fleet has revoked")
    typer.echo(f"task: {verified.task or 'not signed by the fleet; --task FILE compares it with one that you trust'}")
