"""A weaker sandbox is never chosen silently."""

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.sandboxes import choose
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.choose import open_run_sandbox, open_sandbox
from tuneloop.sandboxes.docker_daemon import probe_docker
from tuneloop.sandboxes.landlock import LandlockSandbox


@pytest.fixture(autouse=True)
def probed_anew():
    for probe in (probe_bubblewrap, probe_docker):
        probe.cache_clear()
    yield
    for probe in (probe_bubblewrap, probe_docker):
        probe.cache_clear()


@pytest.fixture
def no_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_landlock(monkeypatch):
    def refused():
        raise InvalidRequestError("the kernel has no Landlock")

    monkeypatch.setattr(choose, "open_landlock", refused)


@pytest.fixture
def no_docker(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


@pytest.mark.parametrize("unsandboxed", ["never", "fallback"])
def test_auto_is_bubblewrap_where_it_works(no_docker, unsandboxed):
    assert open_run_sandbox("auto", unsandboxed).kind == "bubblewrap"


@pytest.mark.parametrize("unsandboxed", ["never", "fallback"])
def test_else_it_is_landlock(no_bubblewrap, no_docker, unsandboxed, monkeypatch):
    monkeypatch.setattr(choose, "open_landlock", LandlockSandbox)  # started by root, its folders may be closed here
    assert open_run_sandbox("auto", unsandboxed).kind == "landlock"


@pytest.mark.parametrize("unsandboxed", ["never", "fallback"])
def test_else_it_is_docker(docker_host, no_bubblewrap, no_landlock, unsandboxed):
    assert open_run_sandbox("auto", unsandboxed).kind == "docker"
    with pytest.raises(InvalidRequestError, match="--sandbox landlock or docker"):
        open_run_sandbox("bubblewrap", unsandboxed)


def test_without_all_three_the_cures_are_told(no_bubblewrap, no_landlock, no_docker):
    with pytest.raises(
        InvalidRequestError, match=r"apt install bubblewrap.*no Landlock.*apt install docker.io.*--allow-unsandboxed"
    ):
        open_sandbox("auto")
    for kind in ("bubblewrap", "landlock", "docker"):
        with pytest.raises(InvalidRequestError):
            open_run_sandbox(kind, "always")
    assert open_run_sandbox("auto", "fallback").kind == "process"


def test_installed_but_refusing_bubblewrap_is_not_used(no_bubblewrap, no_landlock, no_docker):
    fake = no_bubblewrap / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(InvalidRequestError, match=r"No permissions to create new namespace; .*right is"):
        open_sandbox("auto")


def test_docker_is_docker_or_nothing(docker_host):
    assert open_sandbox("docker").kind == "docker"


def test_process_is_there_for_trusted_code_always(no_bubblewrap, no_docker):
    assert open_sandbox("process").kind == "process"


@pytest.mark.parametrize("kind", ["auto", "process"])
def test_only_the_owner_allows_unsandboxed_code(no_bubblewrap, no_landlock, no_docker, kind):
    with pytest.raises(InvalidRequestError, match="--allow-unsandboxed"):
        open_run_sandbox(kind, "never")
    assert open_run_sandbox(kind, "fallback").kind == "process"
    assert open_run_sandbox(kind, "always").kind == "process"


def test_a_record_of_a_run_without_a_sandbox_is_no_permission(no_docker):
    for allowed in ("never", "fallback"):
        with pytest.raises(InvalidRequestError, match="TUNELOOP_UNSANDBOXED=always"):
            open_run_sandbox("process", allowed)
    assert open_run_sandbox("process", "always").kind == "process"
    assert open_run_sandbox("bubblewrap", "always").kind == "bubblewrap", "what the spec names is kept"
