"""The real `huggingface_hub` against the local hub: what it does there is what it does at the real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.constants import DOWNLOAD_CHUNK_SIZE
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from tests.hub.repository import REPOS, Kind, load
from tests.hub.server import GOOD, STRANGER, LocalHub

SUMS, SMALL = "example/sums", "example/small"
GENERATORS = sorted(REPOS.rglob("*.py"))


def download(hub: LocalHub, name: str, kind: str, place: Path, token: str | bool = False, at: str = "main") -> Path:
    return Path(
        snapshot_download(name, repo_type=kind, local_dir=place, endpoint=hub.endpoint, token=token, revision=at)
    )


@pytest.mark.parametrize(("kind", "name"), [("dataset", SUMS), ("model", SMALL)])
def test_a_whole_repository_comes_down(hub: LocalHub, tmp_path: Path, kind: str, name: str) -> None:
    got = download(hub, name, kind, tmp_path / "here")
    repository = load(f"{kind}s", name)  # type: ignore[arg-type]
    assert repository is not None
    files = {str(p.relative_to(got)): p.read_bytes() for p in got.rglob("*") if p.is_file() and ".cache" not in p.parts}
    assert files == {path: blob.data for path, blob in repository.commits[repository.main].items()}


@pytest.mark.parametrize("kind", ["datasets", "models"])
def test_sizes_and_hashes_are_listed(hub: LocalHub, kind: Kind) -> None:
    api, name = HfApi(endpoint=hub.endpoint, token=False), SUMS if kind == "datasets" else SMALL
    info = api.repo_info(name, repo_type=kind.removesuffix("s"), files_metadata=True)
    repository = load(kind, name)
    assert repository is not None
    assert info.sha == repository.main
    for file in getattr(info, "siblings", ()):
        blob = repository.commits[repository.main][file.rfilename]
        assert (file.size, file.blob_id) == (len(blob.data), blob.git)
        assert (file.lfs and file.lfs.sha256) == (blob.sha256 if blob.lfs else None)


def test_an_older_commit_stays_and_main_moves(hub: LocalHub, tmp_path: Path) -> None:
    first = hub.put("datasets", "o/d", {"a.jsonl": b"1\n"})
    second = hub.put("datasets", "o/d", {"a.jsonl": b"2\n"})
    assert HfApi(endpoint=hub.endpoint, token=False).dataset_info("o/d").sha == second
    assert (download(hub, "o/d", "dataset", tmp_path / "1", at=first) / "a.jsonl").read_bytes() == b"1\n"
    with pytest.raises(RevisionNotFoundError):
        download(hub, "o/d", "dataset", tmp_path / "3", at="f" * 40)


def test_many_files_are_listed_in_pages(hub: LocalHub) -> None:
    hub.put("datasets", "o/many", {f"part/{n:05}.txt": b"%d" % n for n in range(2300)})
    tree = HfApi(endpoint=hub.endpoint, token=False).list_repo_tree("o/many", repo_type="dataset", recursive=True)
    assert len({f.path for f in tree}) == 2300


def test_who_may_read_what(hub: LocalHub, tmp_path: Path) -> None:
    hub.close("datasets", SUMS, "gated")
    assert (download(hub, SUMS, "dataset", tmp_path / "a", token=GOOD) / "README.md").is_file()
    refused: tuple[str | bool, ...] = (False, STRANGER)
    for number, token in enumerate(refused):
        with pytest.raises(GatedRepoError):
            download(hub, SUMS, "dataset", tmp_path / str(number), token=token)
    hub.close("datasets", SUMS, "private")
    with pytest.raises(RepositoryNotFoundError):
        download(hub, SUMS, "dataset", tmp_path / "b", token=STRANGER)
    with pytest.raises(HfHubHTTPError, match="Invalid credentials"):
        HfApi(endpoint=hub.endpoint, token="hf_unknown").dataset_info(SUMS)
    with pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=hub.endpoint, token=False).dataset_info("example/nothing")


def test_no_token_reaches_the_other_host(hub: LocalHub, tmp_path: Path) -> None:
    download(hub, SUMS, "dataset", tmp_path / "a", token=GOOD)
    seen = {asked.server: asked.authorization for asked in hub.asked}
    assert seen == {"hub": f"Bearer {GOOD}", "cdn": None}


def test_a_cut_connection_is_taken_up_again_in_ranges(hub: LocalHub, tmp_path: Path) -> None:
    data = bytes(range(256)) * 50_000
    hub.put("models", "o/m", {"model.safetensors": data})
    hub.fail("GET /repos/", cut=DOWNLOAD_CHUNK_SIZE + 1000)  # it keeps whole pieces only
    assert (download(hub, "o/m", "model", tmp_path / "a") / "model.safetensors").read_bytes() == data
    assert [a.range for a in hub.asked if a.server == "cdn"] == [None, f"bytes={DOWNLOAD_CHUNK_SIZE}-"]


@pytest.mark.parametrize("file", GENERATORS, ids=lambda f: f.stem)
def test_every_generator_gives_the_same_bytes_every_time(file: Path) -> None:
    kind, *_ = file.relative_to(REPOS).parts
    name = str(file.relative_to(REPOS / kind).with_suffix(""))
    one, two = (load(kind, name) for _ in range(2))  # type: ignore[arg-type]
    assert one is not None
    assert two is not None
    assert one.main == two.main
    assert one.commits[one.main], "it has files"
