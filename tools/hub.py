"""Fetch models and data sets from the Hugging Face hub: pinned revision, resumable, whole or absent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.settings import Settings
from tuneloop.tools.disk import check_room
from tuneloop.tools.store import make_whole

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
PICKLED = "*.bin"
IGNORED = ["*.pt", "*.pth", "*.msgpack", "*.h5", "*.onnx", "*.gguf", "*.py", "original/*"]


def is_hub_id(name: str) -> bool:
    """True for `org/name`."""
    return HUB_ID.fullmatch(name) is not None


def fetch_hub(
    name: str,
    kind: Literal["model", "dataset"],
    folder: Path,
    settings: Settings,
    *,
    files: Sequence[str] = (),
    revision: str | None = None,
) -> Path:
    """Make `folder` hold the repository `name` at `revision`, or at the one its main branch has now.

    `files`: patterns of what is taken, () for all.

    Raises SetupError when it does not exist or is closed to this user, WorldError when the hub cannot be reached.
    Weights are taken as safetensors, pickled ones only where there are no others (nobody loads them before they are
    converted); code of a repository is left behind.
    """
    import httpx2  # these are slow to import, and most runs fetch nothing
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    api = HfApi(endpoint=settings.hf_endpoint, token=settings.hf_token)

    def make(part: Path) -> None:
        ask = api.model_info if kind == "model" else api.dataset_info
        info = ask(name, revision=revision, files_metadata=True)
        ignored = left_behind(kind, info.siblings or ())
        check_room(part, weight(info.siblings or (), ignored), f"{kind} {name}")
        snapshot_download(
            name,
            repo_type=kind,
            revision=info.sha,
            local_dir=part,
            endpoint=settings.hf_endpoint,
            token=settings.hf_token,
            allow_patterns=list(files) or None,
            ignore_patterns=ignored,
        )

    try:
        return make_whole(folder, make, source=name, kind=kind)
    except GatedRepoError as e:
        raise SetupError(f"{kind} {name} wants its licence accepted on the hub: accept it, then set HF_TOKEN") from e
    except RepositoryNotFoundError as e:
        raise SetupError(f"{kind} {name} is not on the hub (or is private: set HF_TOKEN)") from e
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as e:
        raise WorldError(
            f"{kind} {name} could not be fetched: {type(e).__name__}; check the network or HF_ENDPOINT"
        ) from e


def left_behind(kind: str, files: Iterable[RepoSibling]) -> list[str]:
    """Patterns of what is not taken."""
    wanted = kind == "model" and not any(fnmatch(f.rfilename, "*.safetensors") for f in files)
    return IGNORED if wanted else [*IGNORED, PICKLED]


def weight(files: Iterable[RepoSibling], ignored: Iterable[str]) -> int:
    """Bytes of what will be taken."""
    taken = (f for f in files if not any(fnmatch(f.rfilename, pattern) for pattern in ignored))
    return sum(f.size or 0 for f in taken)
