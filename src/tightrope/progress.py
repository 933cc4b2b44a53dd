"""Progress on the screen: one bar on standard error, silent where nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Report", "no_bars", "progress_bar"]

Report = Callable[[float, str], None]  # (amount done, a few words)
_BARS = ContextVar("_BARS", default=True)


@contextmanager
def no_bars() -> Iterator[None]:
    """No bar is shown inside, whoever asks for one."""
    token = _BARS.set(False)
    try:
        yield
    finally:
        _BARS.reset(token)


@contextmanager
def progress_bar(
    title: str, total: float, *, start: int = 0, shown: bool = True
) -> Iterator[Report]:
    """A bar from `start` to `total`; yields the function that moves it."""
    from rich.console import Console

    console = Console(stderr=True)
    if not shown or not _BARS.get() or not console.is_terminal:
        yield lambda done, words: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    count = "{task.completed:.0f}/{task.total:.0f} {task.fields[words]}"
    columns = "{task.description}", BarColumn(), TextColumn(count), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, completed=start, words="")
        yield lambda done, words: bar.update(task, completed=done, words=words)
