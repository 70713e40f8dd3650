"""A weaker sandbox is never chosen silently."""

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.choose import check_sandbox, open_sandbox
from tuneloop.sandboxes.docker_daemon import probe_docker


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
def no_docker(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


@pytest.mark.parametrize("unsandboxed", [False, True])
def test_auto_is_bubblewrap_where_it_works(no_docker, unsandboxed):
    assert open_sandbox("auto", allow_unsandboxed=unsandboxed).kind == "bubblewrap"


@pytest.mark.parametrize("unsandboxed", [False, True])
def test_else_it_is_docker(docker_host, no_bubblewrap, unsandboxed):
    assert open_sandbox("auto", allow_unsandboxed=unsandboxed).kind == "docker"
    with pytest.raises(InvalidRequestError, match="--sandbox docker"):
        open_sandbox("bubblewrap", allow_unsandboxed=unsandboxed)


def test_without_both_the_cures_are_told(no_bubblewrap, no_docker):
    with pytest.raises(
        InvalidRequestError, match=r"apt install bubblewrap.*apt install docker.io.*--allow-unsandboxed"
    ):
        open_sandbox("auto")
    for kind in ("bubblewrap", "docker"):
        with pytest.raises(InvalidRequestError):
            open_sandbox(kind, allow_unsandboxed=True)
    assert open_sandbox("auto", allow_unsandboxed=True).kind == "process"


def test_one_that_is_there_but_refuses_is_not_believed(no_bubblewrap, no_docker):
    fake = no_bubblewrap / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(InvalidRequestError, match=r"No permissions to create new namespace; .*right is"):
        open_sandbox("auto")


def test_docker_is_docker_or_nothing(docker_host):
    assert open_sandbox("docker").kind == "docker"


def test_process_is_there_for_trusted_code_always(no_bubblewrap, no_docker):
    assert open_sandbox("process").kind == "process"


def test_a_run_that_would_need_the_users_word_is_refused_before_it_begins():
    with pytest.raises(InvalidRequestError, match="--allow-unsandboxed"):
        check_sandbox("process")
    check_sandbox("process", allow_unsandboxed=True)
