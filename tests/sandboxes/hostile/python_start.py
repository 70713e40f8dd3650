"""Code that runs when somebody else's Python starts: planted in an engine, or beside it."""

from __future__ import annotations

from pathlib import Path

from .declare import Aim, attack

EVIL = "raise SystemExit('planted')\n"


@attack("read-only")
def plant_sitecustomize(aim: Aim) -> None:
    (aim.given / "sitecustomize.py").write_text(EVIL)


@attack("read-only")
def plant_a_pth_file(aim: Aim) -> None:
    (aim.given / "evil.pth").write_text("import evil\n")


@attack("read-only")
def plant_compiled_code(aim: Aim) -> None:
    (aim.given / "__pycache__").mkdir()
    (aim.given / "__pycache__/canary.cpython-311.pyc").write_bytes(b"")


@attack("mounts")
def plant_ld_so_preload(aim: Aim) -> None:
    (aim.host / "ld.so.preload").write_text("/nonesuch/evil.so\n")


@attack("mounts")
def plant_user_site(aim: Aim) -> None:
    place = aim.host / ".local/lib/python3.11/site-packages"
    place.mkdir(parents=True)
    (place / "usercustomize.py").write_text(EVIL)


@attack("mounts")
def plant_a_shell_profile(aim: Aim) -> None:
    with (aim.host / "canary").open("a") as f:
        f.write("\nalias tuneloop=evil\n")


@attack("read-only")
def plant_a_module_beside_a_script(aim: Aim) -> None:
    Path(aim.given, "json.py").write_text(EVIL)
