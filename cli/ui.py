"""`tuneloop ui`: a web page with all runs, live."""

from __future__ import annotations

from pathlib import Path

import click

from tuneloop.core.settings import load_settings

EXAMPLES = """\b
Examples:
  tuneloop ui                            prints a link; open it in a browser of this machine
  tuneloop ui --port 8080
  ssh -L 19899:localhost:19899 my-server   then tuneloop ui there, and its link in the browser here

\b
The page can start runs and approve code, so every start prints a link with a new secret, on loopback too. It reads files
only and loads nothing from elsewhere. Docs: docs/ui.md.
"""


@click.command(epilog=EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=19899, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free one.")
@click.option(
    "--log-dir", "folder", type=click.Path(path_type=Path), help="Folder with the runs.  [default: FT_FILE_PATH]"
)
def command(host: str, port: int, folder: Path | None) -> None:
    """Show runs in a browser: live progress, experiments, reports, and the commands that steer them."""
    from tuneloop.ui.serve import serve  # Starlette and uvicorn: help needs none

    settings = load_settings()
    if folder is not None:
        settings = settings.model_copy(update={"file_path": folder_of_runs(folder)})
    serve(settings, host, port, click.echo)


def folder_of_runs(folder: Path) -> Path:
    """The home whose runs a folder holds: the home itself, or its `runs`."""
    return folder.absolute().parent if folder.name == "runs" else folder.absolute()
