"""Where figures are measured: a home of its own with the real engines and models, and what was measured already."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.hub import models

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent


class Place:
    """A temporary `FT_FILE_PATH`, linked to engines and models of the real one; nothing else of the user's is touched."""

    def __init__(self, small: bool, notes: Path) -> None:
        self.small, self.notes = small, notes
        self.details: dict[str, Any] = {}
        self._known: dict[Callable[[Place], Any], Any] = {}
        real = load_settings()
        self.engines: dict[str, Engine] = {
            n: ensure_engine(n, real, self.progress) for n in ("llamafactory", "opencompass")
        }
        self.tiny = models.resolve_model("tiny", real, self.progress).root.resolve()
        self.root = Path(tempfile.mkdtemp(prefix="tuneloop-bench-"))
        self.root.chmod(0o755)  # root's jobs in the landlock sandbox are another user
        self.home = self.root / "home"
        self.home.mkdir()
        for name in ("engines", "models"):
            (self.home / name).symlink_to(getattr(real.home, name).resolve())

    @property
    def settings(self) -> Settings:
        """Of the temporary home; results of earlier evaluations are never taken from a cache."""
        own = {"FT_FILE_PATH": self.home, "FT_ENGINES_DIR": "engines", "FT_DOCKER_ENABLE_CACHE": False}
        return Settings.model_validate(own)

    def run(self, name: str) -> RunFolder:
        """A run in here."""
        return self.settings.home.run(name)

    def once(self, measure: Callable[[Place], T]) -> T:
        """What several figures are taken from is measured once; an error is raised again for each of them."""
        if measure not in self._known:
            try:
                self._known[measure] = measure(self)
            except Exception as e:
                self._known[measure] = e
                raise
        known = self._known[measure]
        if isinstance(known, Exception):
            raise known
        return known  # type: ignore[no-any-return]

    def note(self, name: str, value: Any) -> None:
        """Keep a number behind the figures, in `details.json`."""
        self.details[name] = value
        write_json(self.notes, self.details)

    def say(self, text: str) -> None:
        """One line of progress."""
        print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Progress of builds; a line for each tenth."""
        if total and done % max(1, total // 10) == 0:
            self.say(f"{what}: {done} of {total}")

    def close(self) -> None:
        """End what still runs and remove the home; the engines and models behind its links stay."""
        sandbox = open_sandbox("auto")
        folders = [file.parent for file in self.root.rglob("command.json")]
        for job in folders:
            sandbox.stop(job, grace=0.5)
        for job in folders:
            while sandbox.poll(job).state == "running":
                time.sleep(0.05)
        shutil.rmtree(self.root, ignore_errors=True)
