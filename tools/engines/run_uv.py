"""Runs uv as pip is configured: `python -I run_uv.py pip install …`. The standard library and uv, nothing else.

pip itself need not be installed: its files and `PIP_*` variables are read here. A `UV_*` variable of the user wins.
What is installed can be read by everybody and written by its owner alone, whatever the umask.
"""

from __future__ import annotations

import configparser
import os
import ssl
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

Options = dict[str, str]

# pip's option → uv's variable and what stands between several values.
LISTS = {
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "constraint": ("UV_CONSTRAINT", " "),
}
SINGLE = {
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_NO_INDEX",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
    "client-cert": "SSL_CLIENT_CERT",
}
OURS = {
    "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip: the best match over all indexes
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_NO_PROGRESS": "1",
}
SOURCES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX")
CPU_TORCH = "--torch-backend=cpu"


def config_files(env: Mapping[str, str]) -> list[Path]:
    """The files that pip reads, the weakest first."""
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(env.get("HOME") or Path("~").expanduser())
    shared = [Path(place) / "pip" for place in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")][::-1]
    own = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip"
    folders = [*shared, Path("/etc"), home / ".pip", own, Path(sys.prefix)]
    return [*(folder / "pip.conf" for folder in folders), *([Path(named)] if named else [])]


def pip_options(env: Mapping[str, str]) -> Options:
    """What pip would be told for `pip install`. Raises ValueError for a file that pip could not read either."""
    parser = configparser.RawConfigParser()
    try:
        parser.read(config_files(env), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as e:
        raise ValueError(f"pip's configuration cannot be read: {' '.join(str(e).split())}") from e
    given = [pair for name in ("global", "install") if parser.has_section(name) for pair in parser.items(name)]
    given += [(name[4:], value) for name, value in env.items() if name.startswith("PIP_")]
    return {name.lower().replace("_", "-").removeprefix("--").removeprefix("default-"): v for name, v in given if v}


def uv_environment(options: Options, env: Mapping[str, str], arguments: Iterable[str]) -> dict[str, str]:
    """The environment for uv: ours, pip's configuration, the user's own variables, each stronger than the one before."""
    made = {"UV_SYSTEM_CERTS": "1"} if has_system_certificates() else {}
    made |= {variable: options[name] for name, variable in SINGLE.items() if name in options}
    made |= {variable: between.join(options[k].split()) for k, (variable, between) in LISTS.items() if k in options}
    if options.get("keyring-provider") in ("import", "subprocess"):
        made["UV_KEYRING_PROVIDER"] = "subprocess"
    if proxy := options.get("proxy"):
        made |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
    if "--require-hashes" in arguments:  # nothing is left to constrain, and uv refuses a constraint without a hash
        made.pop("UV_CONSTRAINT", None)
    ca = options.get("cert") or next((env[v] for v in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if env.get(v)), "")
    return {**OURS, **({"SSL_CERT_FILE": ca} if ca else {}), **made, **env}


def has_system_certificates() -> bool:
    """Whether this machine has a store of certificates, which newer releases of pip use; uv brings its own otherwise."""
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))


def main() -> None:
    """Become uv. PyTorch's own index of CPU builds is asked only where no index is configured."""
    import uv

    env = dict(os.environ)
    try:
        env = uv_environment(pip_options(env), env, sys.argv)
    except ValueError as e:
        sys.exit(f"error: {e}")
    own = any(env.get(name) for name in SOURCES)
    arguments = [argument for argument in sys.argv[1:] if not (own and argument == CPU_TORCH)]
    os.umask(0o022)
    program = uv.find_uv_bin()
    os.execve(program, [program, *arguments], env)  # noqa: S606 - this very process becomes uv


if __name__ == "__main__":
    main()
