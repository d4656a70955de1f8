"""``wiredecode help``: the pages of the documentation, for those who have no clone."""

from importlib.resources import files
from pathlib import Path

from typer import Argument

from wiredecode.cli.output import Output, complain, terminal


def pages() -> dict[str, Path]:
    """The pages that people write, by name: those of the wheel, or of a clone."""
    package = Path(str(files("wiredecode")))
    folder = next((each for each in (package / "docs", package.parent / "docs") if each.is_dir()), package)
    paths = [*folder.glob("*.md"), *folder.glob("protocols/*.md")]
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem)}


def page(
    topic: str = Argument("", metavar="TOPIC", autocompletion=pages, help="Name of a page, as in filters."),
) -> int:
    """Show a page of the documentation; without a topic, list them."""
    by_name, output = pages(), Output()
    if topic and topic not in by_name:
        complain(f"no page is called {topic!r}; wiredecode help lists them")
        return 2
    text = by_name[topic].read_text("utf-8") if topic else "\n".join((*by_name, ""))
    screen = terminal() if topic else None
    if screen is not None:
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console(width=screen.columns, force_terminal=True)
        with console.capture() as shown:
            console.print(Markdown(text, hyperlinks=False))
        text = shown.get()
    output.text(text)
    output.flush()
    return 0
