"""What pip is configured with reaches uv: files and variables in pip's own order, a real installation among them."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tuneloop.tools.engines import run_uv
from tuneloop.tools.engines.build import UV
from tuneloop.tools.engines.run_uv import OURS, config_files, has_system_certificates, pip_options, uv_environment


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without any configuration of this machine's pip."""
    own = lambda env: [path for path in config_files(env) if path.is_relative_to(tmp_path)]  # noqa: E731
    monkeypatch.setattr(run_uv, "config_files", own)
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), "PIP_CONFIG_FILE": str(tmp_path / "named")}


def translated(env: dict[str, str], *arguments: str) -> dict[str, str]:
    """What uv gets beyond the environment itself and what we always say."""
    made = uv_environment(pip_options(env), env, arguments)
    return {k: v for k, v in made.items() if k not in env and k not in {*OURS, "UV_SYSTEM_CERTS"}}


def test_every_option_has_its_variable(pip: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "named").write_text(
        "[global]\nindex-url = https://user:word@mirror/simple\nextra_index_url =\n  https://a/simple\n  https://b/simple\n"
        "trusted-host = a b\nfind-links = /wheels https://c/flat\ncert = /ca.pem\nclient-cert = /me.pem\n"
        "default-timeout = 90\nproxy = http://proxy:3128\nno-index = true\n[install]\nkeyring-provider = import\n"
    )
    assert translated(pip) == {
        "UV_DEFAULT_INDEX": "https://user:word@mirror/simple",
        "UV_INDEX": "https://a/simple https://b/simple",
        "UV_INSECURE_HOST": "a b",
        "UV_FIND_LINKS": "/wheels,https://c/flat",
        "SSL_CERT_FILE": "/ca.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "UV_HTTP_TIMEOUT": "90",
        "HTTP_PROXY": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
        "UV_NO_INDEX": "true",
        "UV_KEYRING_PROVIDER": "subprocess",
    }


def test_the_stronger_place_wins_as_in_pip(pip: dict[str, str], tmp_path: Path) -> None:
    for place, index in (("xdg/pip/pip.conf", "shared"), (".config/pip/pip.conf", "own")):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(f"[global]\nindex-url = {index}\n")
    assert translated(pip)["UV_DEFAULT_INDEX"] == "own"
    (tmp_path / "xdg/pip/pip.conf").write_text("[install]\nindex-url = of-install\n")
    assert translated(pip)["UV_DEFAULT_INDEX"] == "of-install"
    (tmp_path / "named").write_text("[install]\nindex-url = named\n")
    assert translated(pip)["UV_DEFAULT_INDEX"] == "named"
    assert translated({**pip, "PIP_INDEX_URL": "said"})["UV_DEFAULT_INDEX"] == "said"
    own = {**pip, "UV_DEFAULT_INDEX": "for-uv"}
    assert uv_environment(pip_options(own), own, ())["UV_DEFAULT_INDEX"] == "for-uv"
    assert config_files({**pip, "PIP_CONFIG_FILE": os.devnull}) == []


def test_pip_itself_reads_the_same_files(pip: dict[str, str], tmp_path: Path) -> None:
    code = (
        "from pip._internal.configuration import get_configuration_files as f; print(*sum(f().values(), []), sep='\\n')"
    )
    if subprocess.run([sys.executable, "-c", "import pip"], capture_output=True).returncode:
        pytest.skip("no pip here")
    said = subprocess.run([sys.executable, "-c", code], env=pip, capture_output=True, text=True, check=True).stdout
    assert sorted(map(str, config_files(pip)[:-1])) == sorted(said.split())


def test_constraints_do_not_stand_beside_hashes(pip: dict[str, str]) -> None:
    env = {**pip, "PIP_CONSTRAINT": "/c.txt"}
    assert translated(env) == {"UV_CONSTRAINT": "/c.txt"}
    assert translated(env, "--require-hashes") == {}


def test_certificates_of_requests_are_taken_when_pip_names_none(pip: dict[str, str]) -> None:
    assert translated({**pip, "REQUESTS_CA_BUNDLE": "/r.pem"})["SSL_CERT_FILE"] == "/r.pem"
    made = uv_environment({}, pip, ())
    assert (made.get("UV_SYSTEM_CERTS") == "1") == has_system_certificates()


def test_a_file_that_pip_cannot_read_is_one_line(pip: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "named").write_text("index-url = x\n")
    done = subprocess.run([*UV, "pip", "list"], env=pip, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: pip's configuration cannot be read: ")
    assert len(done.stderr.splitlines()) == 1


def write_wheel(folder: Path, version: str) -> str:
    """A package of one file; the SHA-256 of its wheel."""
    folder.mkdir(parents=True)
    wheel = folder / f"thing-{version}-py3-none-any.whl"
    info = f"thing-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("thing.py", f"VERSION = {version!r}\n")
        z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: thing\nVersion: {version}\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", f"thing.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_the_best_match_comes_from_any_place_and_others_cannot_write_it(pip: dict[str, str], tmp_path: Path) -> None:
    write_wheel(tmp_path / "one", "1.0")
    hashed = write_wheel(tmp_path / "two", "1.1")
    (tmp_path / "named").write_text(f"[global]\nno-index = 1\nfind-links = {tmp_path}/one\n  {tmp_path}/two\n")
    lock, site = tmp_path / "lock.txt", tmp_path / "site"
    lock.write_text(f"thing==1.1 --hash=sha256:{hashed}\n")
    env = {**pip, "UV_CACHE_DIR": str(tmp_path / "cache")}
    for wanted in (("thing",), ("--reinstall", "--require-hashes", "-r", str(lock))):
        argv = [*UV, "pip", "install", "--python", sys.executable, "--target", str(site), run_uv.CPU_TORCH, *wanted]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, umask=0o002)
        assert done.returncode == 0, done.stderr
        assert (site / "thing.py").read_text() == "VERSION = '1.1'\n"
        assert not stat.S_IMODE((site / "thing.py").stat().st_mode) & 0o022
