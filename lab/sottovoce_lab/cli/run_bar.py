"""Progress bar of many runs: completed runs, total runs, and the estimated time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on standard error; the yielded function updates it with completed runs, total runs, and the last run.

    If standard error is not a terminal, print a line for each run that ends instead.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=None)

        def told(done: int, of: int, name: str) -> None:
            progress.update(bar, completed=done, total=of, description=name)
            if name and not console.is_terminal:
                console.print(f"{done} of {of}: {name}", soft_wrap=True)

        yield told
