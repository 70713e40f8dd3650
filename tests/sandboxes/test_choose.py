"""A weaker sandbox is never chosen silently."""

import pytest

from tuneloop.core.errors import SetupError
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.choose import open_sandbox


@pytest.fixture
def no_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    probe_bubblewrap.cache_clear()
    yield tmp_path
    probe_bubblewrap.cache_clear()


@pytest.mark.skipif(probe_bubblewrap() is not None, reason=str(probe_bubblewrap()))
def test_auto_is_bubblewrap_where_it_works():
    assert open_sandbox("auto").kind == "bubblewrap"
    assert open_sandbox("auto", allow_unsandboxed=True).kind == "bubblewrap"


def test_without_it_the_cure_is_told(no_bubblewrap):
    for kind in ("auto", "bubblewrap"):
        with pytest.raises(SetupError, match="apt install bubblewrap"):
            open_sandbox(kind)
    with pytest.raises(SetupError):
        open_sandbox("bubblewrap", allow_unsandboxed=True)
    assert open_sandbox("auto", allow_unsandboxed=True).kind == "process"


def test_one_that_is_there_but_refuses_is_not_believed(no_bubblewrap):
    fake = no_bubblewrap / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(SetupError, match=r"No permissions to create new namespace.*user namespaces"):
        open_sandbox("auto")


def test_process_is_there_for_trusted_code_always(no_bubblewrap):
    assert open_sandbox("process").kind == "process"
