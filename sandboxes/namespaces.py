"""Why a machine gives bubblewrap no namespaces, from what bwrap said and from the kernel's settings: one cure each."""

from __future__ import annotations

from pathlib import Path

APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
SETTINGS = {  # a file in /proc/sys, what it says when it forbids, what allows
    "user/max_user_namespaces": ("0", "`sysctl user.max_user_namespaces=15000`"),
    "kernel/unprivileged_userns_clone": ("0", "`sysctl kernel.unprivileged_userns_clone=1`"),
    APPARMOR: (
        "1",
        "an AppArmor profile for bwrap (`apt install apparmor-profiles`, then "
        "`ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/` and `systemctl reload apparmor`) "
        "or `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
}
CONTAINERS = (".dockerenv", "run/.containerenv")
IN_CONTAINER = "a container started with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"


def cure(problem: str, root: Path = Path("/")) -> str:
    """What helps against a refusal of bwrap, in one line."""
    if "nknown option" in problem:
        return "right is bubblewrap 0.8 or newer"
    for name, (forbidding, allowed) in SETTINGS.items():
        if said(root / "proc/sys" / name) == forbidding:
            return f"the kernel forbids user namespaces: right is {allowed}"
    if any((root / name).exists() for name in CONTAINERS):
        return f"this is a container: right is {IN_CONTAINER}"
    return "right is a kernel that allows user namespaces (CONFIG_USER_NS), and no security module that forbids them"


def said(setting: Path) -> str:
    """Its value, "" where the kernel has no such setting."""
    try:
        return setting.read_text().strip()
    except OSError:
        return ""
