"""Jobs on nodes that see no file of this machine: slurmd in a mount namespace without them, moto's server as the storage."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import slurm_cluster
from tests.object_store import ACCOUNT, Store
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_model
from tuneloop.core.job import Command, Exit, Limits
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.sandboxes import cluster, slurm
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.cluster import ClusterSandbox, prove_cluster
from tuneloop.sandboxes.jobs import launch, stop_and_wait, wait
from tuneloop.tools.hub.object_storage import Storage
from tuneloop.tools.jobs import node_files, staged_job
from tuneloop.tools.jobs.node_files import Incoming, StagedJob, StorageFiles, needed_files, open_nodes

TRAIN = """
import os, time
done = int(open('model/step').read()) if os.path.exists('model/step') else 0
for step in range(done + 1, 4):
    open('model/steps', 'a').write(str(step))
    open('model/step', 'w').write(str(step))
    if step == 2 and not done: time.sleep(600)
"""


@dataclass
class Nodes:
    """The cluster, the folder that its nodes have as their own, and their profile."""

    slurm: slurm_cluster.Cluster
    hidden: Path
    profile: Path


@pytest.fixture(scope="module")
def nodes(s3_server: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """One node."""
    if absent := slurm_cluster.missing() or probe_bubblewrap():
        pytest.skip(f"not there: {absent}")
    hidden, profile = tmp_path_factory.mktemp("hidden"), tmp_path_factory.mktemp("node") / "profile"
    within = slurm_cluster.alone(hidden, profile, s3_server[1], {**ACCOUNT, "AWS_ENDPOINT_URL": s3_server[0]})
    with (
        tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as place,
        slurm_cluster.cluster(Path(place) / "c", nodes=1, within=within) as made,
    ):
        yield Nodes(made, hidden, profile)


@pytest.fixture
def home(nodes: Nodes, request: pytest.FixtureRequest) -> Path:
    """FT_FILE_PATH, at a place that nodes have as their own disk."""
    place: Path = nodes.hidden / request.node.name / "home"
    (place / "work" / "model").mkdir(parents=True)
    return place


@pytest.fixture
def settings(s3: Store, home: Path) -> Settings:
    """A bucket for the files of nodes."""
    return Settings(FT_FILE_PATH=home, TUNELOOP_NODE_FILES="storage", TUNELOOP_STORAGE=s3.url)


@pytest.fixture
def sandbox(nodes: Nodes, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> ClusterSandbox:
    """As a run opens it."""
    for name, value in nodes.slurm.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cluster, "OFTEN", 0.5)
    monkeypatch.setattr(node_files, "LOOK", 0.5)
    monkeypatch.setattr(slurm, "CONTROLLER", slurm.Controller())
    found = open_nodes("slurm", BubblewrapSandbox(), settings)
    assert isinstance(found, ClusterSandbox)
    return found


@pytest.fixture
def command(home: Path) -> Callable[..., Command]:
    """A job that runs Python code in the folder `work`."""

    def made(code: str, *read: Path, **fields: object) -> Command:
        work = str(home / "work")
        argv, seen = (sys.executable, "-I", "-S", "-c", code), (sys.prefix, sys.base_prefix, *map(str, read))
        return Command(argv=argv, cwd=work, write=(work,), read=seen, limits=Limits(seconds=120), **fields)

    return made


def left(s3: Store) -> list[str]:
    """Objects of attempts; [] while some are being removed."""
    with contextlib.suppress(InvalidRequestError):
        return [name.rpartition("/")[2] for name in s3.objects("/nodes/jobs")]
    return []


@pytest.mark.slow
class TestOnANode:
    """What needs one."""

    def test_a_job_has_its_files_and_brings_its_results(
        self, sandbox: ClusterSandbox, command: Callable[..., Command], home: Path, s3: Store
    ) -> None:
        """Nothing of this machine but what it reads; no credential; an input is sent once; nothing but inputs and claim stays."""
        (home / "model").mkdir()
        (home / "model" / "weights").write_bytes(b"\0" * 3_000_000)
        (home / "secret").touch()
        (home / "work" / "old").write_text("old")
        code = (
            "import os; print(os.path.getsize('../model/weights'), os.path.exists('../secret'), open('old').read(),"
            " [name for name in os.environ if 'AWS' in name]); os.remove('old'); os.mkdir('out');"
            " open('out/result', 'w').write('x' * 2_000_000); os.symlink('/etc/passwd', 'out/link')"
        )
        sandbox.check_reachable(home)
        folder = launch(sandbox, home / "jobs", "one", command(code, home / "model"))
        end = wait(sandbox, folder)
        assert (end.ok, (folder / "log.txt").read_text()) == (True, "3000000 False old []\n")
        assert {p.name for p in (home / "work").rglob("*") if p.is_file()} == {"result"}
        assert (folder / "claim").read_text().split()[2] == "0"
        assert launch(sandbox, home / "jobs", "one", command(code, home / "model")) == folder  # over, and not run again
        until(lambda: left(s3) == ["claim"], seconds=20)
        assert len(s3.objects("/nodes/objects")) == 2

    @pytest.mark.soak
    def test_a_node_that_dies_leaves_its_checkpoint_to_the_next_attempt(
        self,
        nodes: Nodes,
        sandbox: ClusterSandbox,
        command: Callable[..., Command],
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(cluster, "LOST", 15.0)
        folder = launch(sandbox, home / "jobs", "train", command(TRAIN, key="k"))
        step = home / "work" / "model" / "step"
        until(lambda: sandbox.poll(folder).state == "running" and step.exists() and step.read_text() == "2", every=0.1)
        for pid in slurm_cluster.processes_with(str(folder)):
            os.kill(pid, signal.SIGKILL)
        until(lambda: sandbox.poll(folder).state == "lost", every=0.1)
        second = launch(sandbox, home / "jobs", "train", command(TRAIN, key="k"))
        assert (second.name, wait(sandbox, second).ok) == ("train.2", True)
        assert (step.with_name("steps").read_text(), step.read_text()) == ("123", "3")

    @pytest.mark.soak
    def test_two_runners_of_an_attempt_and_one_that_is_stopped(
        self, sandbox: ClusterSandbox, command: Callable[..., Command], home: Path
    ) -> None:
        asked = command("import time; open('made', 'a').write('x'); time.sleep(600)")
        folder = launch(sandbox, home / "jobs", "twice", asked)
        sandbox.submit(folder, asked)
        until(lambda: sandbox.poll(folder).state == "running" and (home / "work" / "made").exists(), every=0.1)
        until(lambda: len(sandbox.scheduler.jobs(now=True) or {}) == 1, seconds=60, every=0.5)
        stop_and_wait(sandbox, folder)
        assert sandbox.poll(folder).killed
        assert (home / "work" / "made").read_text() == "x"

    def test_a_damaged_input_begins_nothing(
        self, sandbox: ClusterSandbox, command: Callable[..., Command], home: Path, s3: Store
    ) -> None:
        (home / "given").write_text("right")
        asked = command("print(open('../given').read())", home / "given")
        assert isinstance(sandbox.files, StorageFiles)
        sandbox.files.send(home / "jobs" / "bad.1", asked)
        (name,) = s3.objects("/nodes/objects")
        s3.put(f"nodes/objects/{name}", b"wrong")
        folder = launch(sandbox, home / "jobs", "bad", asked)
        assert wait(sandbox, folder).reason == "failed_to_start"
        assert f"{name} does not have the hash" in (folder / "log.txt").read_text()

    @pytest.mark.soak
    def test_a_node_with_another_version_is_said_in_a_line(
        self, sandbox: ClusterSandbox, command: Callable[..., Command], home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Newer(StagedJob):
            asked: int = 1

        monkeypatch.setattr(node_files, "StagedJob", Newer)
        folder = launch(sandbox, home / "jobs", "newer", command("print(1)"))
        assert wait(sandbox, folder).reason == "failed_to_start"
        assert "before it began: its node has another version of tuneloop" in (folder / "log.txt").read_text()

    @pytest.mark.soak
    def test_a_node_without_the_storage_is_said_in_a_line(
        self, nodes: Nodes, sandbox: ClusterSandbox, command: Callable[..., Command], home: Path
    ) -> None:
        kept = nodes.profile.read_text()
        nodes.profile.write_text("export AWS_ENDPOINT_URL=http://127.0.0.1:9\n")
        try:
            folder = launch(sandbox, home / "jobs", "off", command("print(1)"))
            assert wait(sandbox, folder).reason == "failed_to_start"
            assert "before it began: its node cannot use TUNELOOP_STORAGE: its cred" in (folder / "log.txt").read_text()
        finally:
            nodes.profile.write_text(kept)
        assert "a job ran on" in prove_cluster(sandbox, home)


class Staged:
    """An attempt whose node is played by the test, at `file://`."""

    def __init__(self, place: Path, command: Command) -> None:
        self.home, self.store = Home(place / "home"), Store(f"file://{place}/store")
        Path(place, "store").mkdir()
        self.folder, self.work = self.home.root / "jobs" / "one.1", Path(command.cwd)
        self.folder.mkdir(parents=True)
        (self.folder / "command.json").write_text(command.model_dump_json())
        self.files = StorageFiles(self.store.url, self.home)
        self.files.send(self.folder, command)
        self.below = f"nodes/jobs/{(self.folder / 'attempt').read_text()}"

    def put(self, key: str, data: bytes) -> None:
        """As a node does."""
        self.store.put(f"{self.below}/{key}", data)

    def get(self, key: str) -> bytes:
        """What the node has written."""
        found = Storage(self.store.url).read_whole(f"{self.below}/{key}", 1 << 20)
        assert found is not None
        return found

    def outputs(self, content: bytes, *names: str) -> None:
        """A list of files that all have this content, which is kept."""
        made = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.put(f"objects/{made['sha256']}", content)
        self.put("now/outputs.json", json.dumps({"files": dict.fromkeys(names, made)}).encode())

    def bring(self) -> None:
        """Until there is nothing more to come, or it is over."""
        incoming = Incoming(self.store.url, self.folder, self.home)
        until(lambda: not incoming.advance() or (self.folder / "exit.json").exists(), seconds=30)


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staged:
    """With two files in the job's folder."""
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    (work / "kept").write_text("kept")
    (work / "old").write_text("old")
    monkeypatch.setattr(node_files, "LOOK", 0.1)
    return Staged(tmp_path, Command(argv=("/bin/true",), cwd=str(work), write=(str(work),)))


def test_results_come_checked_and_the_end_last(staged: Staged) -> None:
    kept = staged.work / "kept"
    new = staged.work / "model" / "new"
    staged.outputs(b"kept", str(kept), str(new))
    staged.put("now/log.txt", b"said")
    staged.put("now/exit.json", Exit(code=0, reason="finished", seconds=1).model_dump_json().encode())
    staged.bring()
    assert {p.name: p.read_text() for p in staged.work.rglob("*") if p.is_file()} == {"kept": "kept", "new": "kept"}
    assert (staged.folder / "log.txt").read_text() == "said"
    assert read_model(staged.folder / "exit.json", Exit).ok


def test_what_a_cut_fetch_has_left_is_not_believed(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    result = staged.work / "result"
    staged.outputs(b"old", str(result))
    with monkeypatch.context() as cut:
        cut.setattr(shutil, "rmtree", lambda *_, **__: None)  # as if it had been killed before
        cut.setattr(Path, "replace", lambda self, to: None if to == result else os.replace(self, to))
        Incoming(staged.store.url, staged.folder, staged.home).bring_outputs()
    assert any((staged.folder / node_files.PART).rglob("plan.json"))
    staged.outputs(b"new", str(result))
    staged.put("now/exit.json", Exit(code=0, reason="finished", seconds=1).model_dump_json().encode())
    staged.bring()
    assert result.read_bytes() == b"new"


def test_a_file_may_become_a_folder_and_back(staged: Staged) -> None:
    place = staged.work / "a"
    for names in ([place], [place / "b"], [place]):
        staged.outputs(b"x", *map(str, names))
        Incoming(staged.store.url, staged.folder, staged.home).bring_outputs()
        assert [path for path in staged.work.rglob("*") if path.is_file()] == names


def test_a_refused_name_makes_no_folder(staged: Staged, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (staged.work / "link").symlink_to(tmp_path / "elsewhere")
    staged.outputs(b"x", str(staged.work / "link" / "a" / "b"))
    with pytest.raises(InfrastructureError, match="leads out of the folders of its job"):
        staged.bring()
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "name", ["/etc/x", "{work}/../x", "{work}", "{work}x/y", "work/x", "{work}/a\\b", "{work}//x", "{work}/./x"]
)
def test_a_name_that_lies_elsewhere_is_refused(staged: Staged, name: str) -> None:
    staged.outputs(b"x", str(staged.work / "fine"), name.format(work=staged.work))
    with pytest.raises(InfrastructureError, match="lies in no folder of its job"):
        staged.bring()
    assert {p.name for p in staged.work.iterdir()} == {"kept", "old"}


def test_a_job_that_is_stopped_while_its_files_are_fetched_does_not_begin(staged: Staged) -> None:
    words = StorageFiles(staged.store.url, staged.home).words(staged.folder)
    staged.home.root.rename(staged.home.root.with_name("elsewhere"))  # nodes do not see it
    staged.put("stop", b"5")
    subprocess.run([sys.executable, *words, "process"], check=True, timeout=60)
    end = Exit.model_validate_json(staged.get("now/exit.json"))
    assert (end.reason, end.code) == ("stopped", -signal.SIGTERM)
    assert "stopped when 0 of 1 MB were fetched" in staged.get("now/log.txt").decode()
    assert not staged.work.exists()


def test_a_scheduler_is_asked_for_the_time_that_files_take(staged: Staged) -> None:
    with (staged.work / "weights").open("wb") as file:
        file.truncate(50_000_000)
    asked = Command(argv=("/bin/true",), cwd=str(staged.work), write=(str(staged.work),), limits=Limits(seconds=60))
    more = StorageFiles(staged.store.url, staged.home).send(staged.home.root / "jobs" / "two.1", asked)
    assert more == pytest.approx(10, abs=0.1)
    assert cluster.with_more_time(asked, more).limits.seconds == pytest.approx(70, abs=0.1)
    endless = asked.model_copy(update={"limits": Limits()})
    assert cluster.with_more_time(endless, more) == endless


def test_a_damaged_result_and_one_behind_a_link_are_refused(staged: Staged, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (staged.work / "link").symlink_to(tmp_path / "elsewhere")
    staged.outputs(b"x", str(staged.work / "link" / "x"))
    with pytest.raises(InfrastructureError, match="leads out of the folders of its job"):
        staged.bring()
    staged.outputs(b"right", str(staged.work / "x"))
    staged.put(f"objects/{hashlib.sha256(b'right').hexdigest()}", b"wrong")
    staged.put("now/exit.json", Exit(code=0, reason="finished", seconds=1).model_dump_json().encode())
    with pytest.raises(InfrastructureError, match="does not have the hash"):
        staged.bring()
    staged.put("now/outputs.json", b"[]")
    with pytest.raises(InfrastructureError, match="holds what no node of ours wrote"):
        staged.bring()
    assert not [*(tmp_path / "elsewhere").iterdir(), *staged.folder.glob("exit.json"), *staged.work.glob("x")]


def test_a_storage_that_does_not_answer_pauses_after_a_while(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming = Incoming(staged.store.url, staged.folder, staged.home)
    shutil.rmtree(staged.store.url.removeprefix("file://"))
    assert incoming.advance()
    monkeypatch.setattr(node_files, "PATIENCE", 0.2)
    with pytest.raises(InfrastructureError, match=r"is not there: no such bucket.*, then `tuneloop resume`"):
        until(lambda: not incoming.advance(), seconds=10)


def test_what_lies_below_the_home_travels(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for name in ("home/model/a", "home/model/empty", "home/engines/e/python", "home/secret", "elsewhere/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (home.root / "model" / "inside").symlink_to("a")
    (home.root / "model" / "outside").symlink_to(home.root / "secret")
    read = tuple(map(str, (home.root / "model", home.root / "engines" / "e", tmp_path / "elsewhere", "/usr")))
    (home.root / "work").mkdir()
    command = Command(argv=("x",), cwd=str(home.root / "work"), read=read, write=(str(home.root / "work"),))
    files, folders = needed_files(command, home)
    assert [file.name for file in files] == ["a", "empty", "inside"]
    assert folders == [str(home.root / "model"), str(home.root / "work")]


def test_a_folder_of_somebody_else_is_no_node_s(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    staged_job.open_root(tmp_path / "home")
    (tmp_path / "home" / "x").touch()
    staged_job.open_root(tmp_path / "home")
    with pytest.raises(InvalidRequestError, match="right is TUNELOOP_NODE_FILES=shared"):
        staged_job.open_root(tmp_path)
    with pytest.raises(InvalidRequestError, match="right is an FT_FILE_PATH that nodes can make"):
        staged_job.open_root(tmp_path / "home" / "x" / "y")


@pytest.mark.parametrize("url", [None, "file:///tmp/x"])
def test_a_storage_that_nodes_cannot_reach_is_refused(url: str | None) -> None:
    settings = Settings(TUNELOOP_NODE_FILES="storage", TUNELOOP_STORAGE=url)
    with pytest.raises(InvalidRequestError, match="right is TUNELOOP_STORAGE=s3://bucket/path"):
        open_nodes("slurm", BubblewrapSandbox(), settings)
    assert open_nodes("local", BubblewrapSandbox(), settings).kind == "bubblewrap"


def test_a_job_that_was_sent_is_not_given_up_where_the_settings_changed(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "CONTROLLER", slurm.Controller())
    (staged.folder / "cluster.txt").write_text("7")
    sandbox = open_nodes("slurm", BubblewrapSandbox(), Settings())
    for ask in (sandbox.poll, sandbox.stop):
        with pytest.raises(InfrastructureError, match="set TUNELOOP_NODE_FILES and TUNELOOP_STORAGE as they were"):
            ask(staged.folder)


def test_a_storage_without_conditional_writes_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = StorageFiles(store.url, Home(tmp_path))
    files.check()
    monkeypatch.setattr(Storage, "create", lambda *_: True)
    with pytest.raises(InvalidRequestError, match="right is a storage that honours If-None-Match"):
        files.check()
    assert store.objects("/nodes") == {}


def test_files_that_change_all_the_time_hold_nothing_up(staged: Staged) -> None:
    """A large one that is being written stays as it was sent; the end takes everything."""
    job = StagedJob.model_validate_json(staged.store.get(f"{staged.below}/job.json"))
    runner = staged_job.Runner(
        staged.store.url, staged.files.storage(staged.folder), job, staged.home.root, staged.folder
    )
    over, large = threading.Event(), staged.work / "large"
    (staged.work / "pulse").touch()
    large.write_bytes(b"1" * (17 << 20))
    os.utime(large, (1, 1))

    def write_on() -> None:
        for n in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
            (staged.work / "pulse").write_text(str(n) * 1000)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(20):
            runner.send(final=False)
            assert {Path(path).name for path in runner.sent} == {"kept", "old", "pulse", "large"}
        sent = runner.sent[str(large)]
        large.write_bytes(b"2" * (17 << 20))
        (staged.work / "old").unlink()
        runner.send(final=False)
        assert runner.sent[str(large)] == sent
        assert str(staged.work / "old") not in runner.sent
    finally:
        over.set()
        writer.join()
    runner.send(final=True)
    assert runner.sent[str(large)] != sent
    staged.bring()
    assert (staged.work / "large").read_bytes()[:1] == b"2"


@pytest.mark.parametrize(
    "other",
    [{"TUNELOOP_SLURM_CONTAINER": "apptainer exec x.sif"}, {"TUNELOOP_SLURM_OPTIONS": "--nodes=2"}],
    ids=["image", "several nodes"],
)
def test_what_does_not_go_with_files_from_a_storage(other: dict[str, str]) -> None:
    settings = Settings(TUNELOOP_NODE_FILES="storage", TUNELOOP_STORAGE="s3://lab/x", **other)
    with pytest.raises(InvalidRequestError, match="leave one of them out"):
        open_nodes("slurm", BubblewrapSandbox(), settings)
