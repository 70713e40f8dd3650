"""Fetch models and data sets from a hub: pinned to a commit, taken up where it was cut, verified, whole or absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.settings import Settings
from tuneloop.tools.hub.download import download_files
from tuneloop.tools.hub.http import with_retries
from tuneloop.tools.hub.huggingface import HuggingFace
from tuneloop.tools.hub.listing import OF_BENCHMARK, Hub, HubRequest, Kind
from tuneloop.tools.hub.modelscope import ModelScope
from tuneloop.tools.hub.object_storage import ObjectHub, Storage, listed_objects
from tuneloop.tools.hub.store import make_complete

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")
FROM_STORAGE = "storage"  # the folder of what came from object storage
LONGEST_TITLE = 60
Progress = Callable[[str, int, int], None]


def is_hub_id(name: str) -> bool:
    """True for `org/name` and `org/name@revision`."""
    return HUB_ID.fullmatch(name) is not None


def fetch_repository(
    name: str,
    kind: Kind,
    folder: Path,
    settings: Settings,
    *,
    files: Sequence[str] = (),
    without: Sequence[str] = (),
    revision: str | None = None,
    progress: Progress | None = None,
    tidy: Callable[[Path], None] | None = None,
) -> Path:
    """Make `folder` hold the repository `name` (or `name@revision`) at `revision`, or at what its main branch has now.

    `files`: patterns of what is taken, () for all; `without`: of what is not. The manifest names the commit. Weights are taken
    as safetensors, pickled ones only where there are no others (nobody loads them before they are converted); code of a
    repository is left behind. What a kill cut off is continued by the next call, on the same commit. `tidy` changes the files
    before they count as there.

    Raises InvalidRequestError when it does not exist or is closed to this user, InfrastructureError when it cannot be fetched now.
    """
    name, _, named = name.partition("@")
    wanted = HubRequest(name, kind, revision or named or None, tuple(files), tuple(without))
    say = partial(progress, f"{wanted} (MB)") if progress else _quiet
    return make_complete(
        folder, lambda part: _fetch(wanted, part, settings, say, tidy), keep=True, source=name, kind=kind
    )


def fetch_objects(url: str, kind: Kind, store: Path, progress: Progress | None = None) -> tuple[str, Path]:
    """A name, and a folder below `store` with what lies at `url` in an object storage now, as `fetch_repository` has it of a hub.

    The folder is named after names, sizes and marks of the objects: an object that has changed leads to another one, and
    `progress` says so. Raises InvalidRequestError, InfrastructureError.
    """
    storage = Storage(url)
    wanted = HubRequest(url, kind, files=OF_BENCHMARK if kind == "benchmark" else ())
    listing = with_retries(lambda: listed_objects(storage, wanted.choose(storage.listing())))
    title = re.sub(r"[^\w.]+", "-", storage.url)[-LONGEST_TITLE:].strip("-.")
    folder = store / FROM_STORAGE / f"{title}-{listing.commit[:12]}"
    before = [other for other in folder.parent.glob(f"{title}-{'?' * 12}") if other != folder]
    changed = ", which has changed since it was fetched" if before and not folder.exists() else ""
    say = partial(progress, f"{wanted}{changed} (MB)") if progress else _quiet
    hub = ObjectHub(storage, lambda _: listing)

    def fill(part: Path) -> dict[str, Any]:
        return {"hub": hub.name, "commit": download_files(hub, wanted, part, say).commit}

    root = make_complete(folder, fill, keep=True, source=url, kind=kind)
    return storage.url.rpartition("/")[2], root


def choose_hub(settings: Settings) -> Hub:
    """The hub that FT_HUB names."""
    return ModelScope(settings) if settings.hub == "modelscope" else HuggingFace(settings)


def _fetch(
    wanted: HubRequest,
    part: Path,
    settings: Settings,
    say: Callable[[int, int], None],
    tidy: Callable[[Path], None] | None,
) -> dict[str, Any]:
    hub = choose_hub(settings)
    listing = download_files(hub, wanted, part, say)
    if tidy:  # killed meanwhile it finds no plan, and everything is fetched anew
        tidy(part)
    return {"hub": hub.name, "commit": listing.commit}


def _quiet(done: int, total: int) -> None:
    """Progress that nobody watches."""
