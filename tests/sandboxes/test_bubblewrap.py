"""Where the kernel gives no user namespaces: one line with the cure, found by its settings."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tuneloop
from tuneloop.sandboxes.bubblewrap import namespace_hint, probe_bubblewrap

PROBE = """
import sys; sys.path.insert(0, sys.argv[1])
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.core.errors import InvalidRequestError
try: open_sandbox('bubblewrap')
except InvalidRequestError as e: print(e)
"""


@pytest.mark.skipif(probe_bubblewrap() is not None or not shutil.which("unshare"), reason="needs user namespaces")
def test_exhausted_kernel_resource_is_one_line():
    shell = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" "$@"'
    source = str(Path(tuneloop.__file__).parent.parent)
    argv = ["unshare", "-Ur", "sh", "-c", shell, sys.executable, "-c", PROBE, source]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert len(told.splitlines()) == 1
    assert "ENOSPC" in told
    assert "right is `sysctl user.max_user_namespaces=15000`" in told


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ({"proc/sys/user/max_user_namespaces": "0\n"}, "sysctl user.max_user_namespaces"),
        ({"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "sysctl kernel.unprivileged_userns_clone=1"),
        ({"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "an AppArmor profile for bwrap"),
        ({".dockerenv": ""}, "--security-opt seccomp=unconfined"),
        ({"proc/sys/user/max_user_namespaces": "15000\n", ".dockerenv": ""}, "this is a container"),
        ({}, "CONFIG_USER_NS"),
    ],
)
def test_each_reason_has_its_own_cure(tmp_path, made, wanted):
    for name, text in made.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    said = namespace_hint("bwrap: setting up uid map: Permission denied", tmp_path)
    assert wanted in said
    assert "\n" not in said


def test_an_old_bubblewrap_is_no_matter_of_the_kernel(tmp_path):
    assert "0.8 or newer" in namespace_hint("bwrap: Unknown option --disable-userns", tmp_path)
