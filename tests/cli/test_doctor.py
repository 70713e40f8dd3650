"""`tuneloop doctor`: what it sees, the cures, and its exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.object_store import Store
from tuneloop.cli import doctor
from tuneloop.cli.doctor import check_agents, check_engine, check_files, check_gpu, check_memory, check_sandboxes
from tuneloop.cli.main import cli
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.docker_daemon import probe_docker
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS, engine_identity
from tuneloop.tools.engines.engine import MANIFEST, Engine, write_manifest


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_problem_has_a_cure() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    checks = json.loads(result.stdout)
    names = [c["name"] for c in checks]
    for wanted in ("python", "memory", "disk", "gpu", "sandbox", "llamafactory", "opencompass", "FT_FILE_PATH"):
        assert wanted in names
    assert all(c["cure"] for c in checks if c["verdict"] == "missing")
    assert result.exit_code == (1 if any(c["verdict"] == "missing" for c in checks) else 0)
    assert "python" in CliRunner().invoke(cli, ["doctor"]).stdout


def test_broken_settings_are_a_check_not_a_crash() -> None:
    Path(".env").write_text("FT_BENCHMARK_LIMIT=many\n")
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    assert result.exit_code == 1
    broken = json.loads(result.stdout)[-1]
    assert (broken["name"], broken["verdict"]) == ("settings", "missing")
    assert "FT_BENCHMARK_LIMIT='many'" in broken["says"]


def test_foreign_keys_are_noted() -> None:
    Path(".env").write_text("BACKEND=x\n")
    notes = [c for c in json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout) if c["name"] == "settings"]
    assert len(notes) == 1
    assert "BACKEND" in notes[0]["says"]


def test_memory(tmp_path: Path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:       8000000 kB\nMemAvailable:   1000000 kB\n")
    assert check_memory(info).verdict == "note"
    info.write_text("MemTotal:       8000000 kB\nMemAvailable:   6000000 kB\n")
    assert check_memory(info).verdict == "ok"


def test_gpu_of_the_drivers_own_report(tmp_path: Path) -> None:
    assert check_gpu(tmp_path).verdict == "note"
    card = tmp_path / "gpus" / "0000:17:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 1\n")
    assert check_gpu(tmp_path).says == "NVIDIA H200"


def test_home_below_a_file_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "file" / "home"))
    (check,) = check_files(Settings())
    assert check.verdict == "missing"
    assert "FT_FILE_PATH" in check.cure


@pytest.fixture
def probed_anew() -> Iterator[None]:
    for probe in (probe_bubblewrap, probe_docker):
        probe.cache_clear()
    yield
    for probe in (probe_bubblewrap, probe_docker):
        probe.cache_clear()


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "landlock_problem", lambda: "the kernel has no Landlock")


def test_no_sandbox_at_all(
    probed_anew: None, no_landlock: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    checks = {check.name: check for check in check_sandboxes()}
    assert checks["sandbox"].verdict == "missing"
    assert "apt install bubblewrap" in checks["sandbox bubblewrap"].says
    assert checks["sandbox landlock"].says == "the kernel has no Landlock"
    assert "apt install docker.io" in checks["sandbox docker"].says


def test_docker_alone_is_a_sandbox(
    probed_anew: None, no_landlock: None, docker_host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = {check.name: check for check in check_sandboxes()}
    assert checks["sandbox"].says == "auto is docker; works: docker"
    assert checks["sandbox bubblewrap"].cure == "not needed: docker works"


def test_landlock_comes_before_docker(
    probed_anew: None, docker_host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "landlock_problem", lambda: None)
    checks = {check.name: check for check in check_sandboxes()}
    assert checks["sandbox"].says == "auto is landlock; works: landlock, docker"


def test_engines_are_seen_when_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    monkeypatch.setenv("FT_ENGINES_DIR", str(tmp_path / "engines"))
    settings, python = Settings(), Path(sys.executable)
    folder = tmp_path / "engines" / f"llamafactory-{engine_identity(ENGINE_BLUEPRINTS['llamafactory'])}"
    folder.mkdir(parents=True)
    assert check_engine(settings, "llamafactory").verdict == "note"
    write_manifest(Engine("llamafactory", folder, python, python.parent, (), "1", "abc"), folder / MANIFEST)
    assert check_engine(settings, "llamafactory").says == folder.name
    folder.parent.chmod(0o777)
    for name in ("llamafactory", "opencompass"):  # built, and to be built
        check = check_engine(settings, name)
        assert (
            check.verdict == "missing" and "another user can write it" in check.says and "FT_ENGINES_DIR" in check.cure
        )
    monkeypatch.setenv("LLAMA_FACTORY_PATH", str(tmp_path / "gone"))
    check = check_engine(Settings(), "llamafactory")
    assert (check.verdict, check.cure) == ("missing", "correct LLAMA_FACTORY_PATH or unset it")


def test_who_thinks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_agents(Settings()).says.startswith("the offline policy")
    monkeypatch.setenv("CHAT_MODEL", "gpt-5")
    wrong = check_agents(Settings())
    assert (wrong.verdict, "OPENAI_API_KEY" in wrong.says) == ("missing", True)
    told = Settings(OPENAI_API_KEY="sk-x", OPENAI_API_BASE="http://h:1/v1", TUNELOOP_CHAT_FALLBACKS="small")
    found = check_agents(told)
    assert found.says == "gpt-5 at h; where it does not answer: small, the offline policy"
    assert "no price for small;" in found.cure


@pytest.mark.skipif(probe_bubblewrap() is not None, reason="no bubblewrap")
def test_a_cluster_that_is_none_is_a_note() -> None:
    check = doctor.check_executor(Settings(RAY_ADDRESS="auto"), "ray")
    assert (check.name, check.verdict, check.cure) == ("ray", "note", "not needed without --executor ray")
    assert "right is RAY_ADDRESS=http://HEAD:8265" in check.says


def test_a_storage_is_tried_out(store: Store, tmp_path: Path) -> None:
    """Nothing is left there; one that may not be used is said with its cure."""
    assert doctor.check_storage(Settings()) == []
    (found,) = doctor.check_storage(Settings(TUNELOOP_STORAGE=store.url))
    assert (found.verdict, store.objects()) == ("ok", {}), found
    (tmp_path / "no-folder").touch()
    wrong = "s3://not-there/x" if store.server else f"file://{tmp_path}/no-folder/x"
    (found,) = doctor.check_storage(Settings(TUNELOOP_STORAGE=wrong))
    assert (found.verdict, bool(found.cure)) == ("missing", True), found
    assert wrong in found.says
