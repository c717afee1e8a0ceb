"""A progress bar for many runs that shows the completed runs, the total and the estimated remaining time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on standard error, and yield a function that updates it.

    The function takes the number of completed runs, the total number of runs and the name of the last run. If standard
    error is not a terminal, it also prints a line for each completed run.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=None)

        def update(done: int, total_runs: int, name: str) -> None:
            progress.update(bar, completed=done, total=total_runs, description=name)
            if name and not console.is_terminal:
                console.print(f"{done} of {total_runs}: {name}", soft_wrap=True)

        yield update
