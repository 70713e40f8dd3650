"""A run is carried on by the home that made it; any other is looked at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tuneloop.cli.main import cli
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.manifest import read_manifest, repeated_spec, write_manifest
from tuneloop.tools.runs.messages import deliver
from tuneloop.tools.runs.signature import (
    check_no_links_out,
    check_signed,
    is_signed,
    make_key,
    trust_folder,
    write_signed_setup,
)

SPEC = RunSpec(benchmark="wordproblems", base_model="tiny")
FOREIGN = "was not made by this home"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return load_settings().home


@pytest.fixture
def run(home: Home) -> RunFolder:
    """A run of ours that was prepared."""
    made = home.run("r")
    write_manifest(made, SPEC)
    write_signed_setup(made, "{}")
    return made


@pytest.fixture
def foreign(tmp_path: Path, home: Home) -> RunFolder:
    """A run of another home, as somebody sends it."""
    theirs = Home(tmp_path / "theirs").run("f")
    write_manifest(theirs, SPEC)
    write_signed_setup(theirs, "{}")
    shutil.copytree(theirs.root, home.run("f").root)
    return home.run("f")


def test_ours_is_ours_before_and_after_prepare(home: Home, run: RunFolder) -> None:
    check_signed(run)
    run.setup.unlink()
    check_signed(run)
    assert home.key.stat().st_mode & 0o777 == 0o600
    assert make_key(home) == make_key(home)


CHANGES: dict[str, Callable[[RunFolder], object]] = {
    "spec": lambda r: r.spec.write_text(r.spec.read_text().replace("tiny", "/tmp/other")),
    "setup": lambda r: write_json(r.setup, {"sandbox": "process"}),
    "a setup that was not there": lambda r: added_setup(r),
    "no signature": lambda r: r.signature.unlink(),
    "an empty signature": lambda r: write_json(r.signature, {}),
    "an odd signature": lambda r: write_json(r.signature, {"run.yaml": None, "setup.json": ["x"]}),
    "no object": lambda r: write_json(r.signature, []),
    "a torn signature": lambda r: r.signature.write_text("{"),
    "the setup of another run": lambda r: other_setup(r),
    "another key": lambda r: (r.root.parent.parent / "signing.key").unlink(),
}


def added_setup(run: RunFolder) -> None:
    """Only the spec was signed."""
    write_manifest(run, SPEC)
    write_json(run.setup, {})


def other_setup(run: RunFolder) -> None:
    """Exchange the setup for one that this home has signed too."""
    other = RunFolder(run.root.parent / "other")
    write_manifest(other, SPEC.model_copy(update={"seed": 2}))
    write_signed_setup(other, "{}")
    signed = read_json(run.signature)
    write_json(run.signature, {**signed, "setup.json": read_json(other.signature)["setup.json"]})


def test_a_key_whose_making_was_killed_leaves_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    (home.root / f".{home.key.name}.123456.part").write_bytes(b"half")
    assert make_key(home) == make_key(home)
    assert [path.name for path in home.root.iterdir()] == [home.key.name]
    (home.root / f".{home.key.name}.123456.part").hardlink_to(home.key)
    assert make_key(home) == make_key(home)
    assert [path.name for path in home.root.iterdir()] == [home.key.name]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_is_not_ours(run: RunFolder, change: Callable[[RunFolder], object]) -> None:
    change(run)
    assert not is_signed(run)
    with pytest.raises(InvalidRequestError, match=FOREIGN):
        check_signed(run)


def test_a_foreign_run_is_shown_and_not_carried_on(foreign: RunFolder) -> None:
    shown = CliRunner().invoke(cli, ["list", "runs"])
    assert (shown.exit_code, "f" in shown.output.split()) == (0, True)
    for words in (["resume", "f"], ["fork", "f", "--at", "0"], ["run", "--repeat", "f"]):
        refused = CliRunner().invoke(cli, words)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1), words
        assert "--trust-folder" in refused.stderr or "setup.json" in refused.stderr, words
    for use in (repeated_spec, lambda r: deliver(r, "use lora_rank=8"), jobs_of, setup_of):
        with pytest.raises(InvalidRequestError, match=FOREIGN):
            use(foreign)
    assert not foreign.inbox.exists()


def jobs_of(run: RunFolder) -> object:
    return RunTools(run, Settings()).sandbox


def setup_of(run: RunFolder) -> object:
    return RunTools(run, Settings()).setup


def test_a_trusted_folder_is_ours_and_its_sandbox_stays(foreign: RunFolder) -> None:
    trust_folder(foreign)
    check_signed(foreign)
    given = read_manifest(foreign)
    given["spec"] |= {"sandbox": "process", "allow_unsandboxed": True}
    foreign.spec.write_text(yaml.safe_dump(given))
    trust_folder(foreign)
    with pytest.raises(InvalidRequestError, match=r"run\.yaml is damaged"):
        repeated_spec(foreign)


@pytest.mark.parametrize("where", ["experiments/001/work", "baseline", "inbox/1.json", "jobs"])
def test_links_that_lead_out_are_not_trusted(foreign: RunFolder, tmp_path: Path, where: str) -> None:
    (foreign.root / where).parent.mkdir(parents=True, exist_ok=True)
    (foreign.root / where).symlink_to(tmp_path)
    with pytest.raises(InvalidRequestError, match="leads out of the run's folder"):
        trust_folder(foreign)
    assert not is_signed(foreign)


@pytest.mark.parametrize(
    "where",
    [
        "experiments/001/jobs/train.1/lock",
        "experiments/001/work",
        "experiments/001/model",
        "baseline",
        "inbox",
        "datasets",
    ],
)
def test_a_run_of_ours_that_comes_back_with_links_is_not_carried_on(run: RunFolder, tmp_path: Path, where: str) -> None:
    """Its signature holds: a job's lock would be emptied where the link leads, a folder given to jobs."""
    (tmp_path / "mine.txt").write_text("mine")
    (run.root / where).parent.mkdir(parents=True, exist_ok=True)
    (run.root / where).symlink_to(tmp_path / "mine.txt")
    check_signed(run)
    with pytest.raises(InvalidRequestError, match="leads out of the run's folder"):
        drive(run, load_settings())
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_links_of_jobs_and_of_the_owner_are_left_alone(run: RunFolder, tmp_path: Path) -> None:
    for where in ("experiments/001/work/cache/x", "experiments/001/model/x", "datasets/mine"):
        (run.root / where).parent.mkdir(parents=True, exist_ok=True)
        (run.root / where).symlink_to(tmp_path)
    (run.root / "loop").symlink_to("loop")
    check_no_links_out(run)
    moved = run.root.rename(tmp_path / "larger disk")
    run.root.symlink_to(moved)
    check_no_links_out(run)
    with pytest.raises(InvalidRequestError, match="leads out"):
        trust_folder(run)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_can_read_is_refused(home: Home, run: RunFolder, mode: int) -> None:
    home.key.chmod(mode)
    with pytest.raises(InvalidRequestError, match="chmod 600"):
        check_signed(run)


def test_a_damaged_key_is_named(home: Home, run: RunFolder) -> None:
    home.key.write_bytes(b"short")
    with pytest.raises(InvalidRequestError, match=r"signing\.key: is damaged"):
        check_signed(run)
    home.key.unlink()
    home.key.symlink_to("/dev/zero")
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        check_signed(run)
