"""Harmless targets for every attack, and what can be seen of them afterwards, from outside."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest.mock import patch

from tuneloop.core.job import Command, Exit, Limits, Sandbox
from tuneloop.sandboxes.cluster import ClusterSandbox
from tuneloop.sandboxes.jobs import wait

from ..conftest import ENGINES, start_worker
from .declare import Aim, Attack, libc
from .kernel import LOGON
from .lonely import Lonely, add_key

HERE = Path(__file__).parent
CREATE = 0o1000 | 0o666  # IPC_CREAT
REMOVE = 0  # IPC_RMID
LOG = 1 << 20  # bytes
Seen = dict[str, tuple[int, int, bytes]]


@dataclass
class Target:
    """What one attack aims at."""

    aim: Aim
    secret: str
    before: Seen = field(default_factory=dict)
    victim: subprocess.Popen[bytes] | None = None
    state: str = ""


class Arena:
    """Targets below `root`; made once, attacked once, then looked at. Use `attack_bare` or `attack_in`."""

    def __init__(self, root: Path, attacks: Iterable[Attack], lonely: Lonely) -> None:
        self.root, self.lonely = root, lonely
        self.attacks = list(attacks)
        self.heard: set[str] = set()
        self.opened: list[socket.socket] = []
        self.name = f"arena{secrets.token_hex(4)}"
        self.job = root / "jobs/hostile.1"
        self.targets: dict[str, Target] = {}
        self.log = ""
        self.end: Exit
        for place in (root / "host", root / "given", root / "work", self.job):
            place.mkdir(parents=True)
            place.chmod(0o777)
        root.chmod(0o755)
        self.code = root / "code"
        shutil.copytree(HERE, self.code / "hostile", ignore=shutil.ignore_patterns("__pycache__"))
        lonely.do(self.furnish)

    def furnish(self) -> None:
        """Everything is open to everybody: it shall be the sandbox that holds."""
        self.shared = "-".join(["secret", secrets.token_hex(8)])
        add_key(LOGON, self.shared.encode())
        self.segment = libc.shmget(0, 4096, CREATE)
        libc.shmat.restype = ctypes.c_void_p
        ctypes.memmove(libc.shmat(self.segment, None, 0), self.shared.encode(), len(self.shared))
        socket.sethostname(self.name)
        self.ports = self.listen()
        (self.job / "secret").write_text(self.shared)
        (self.job / "lock").touch()
        (self.root / "host/open").write_text(self.shared)
        for attack in self.attacks:
            self.targets[attack.name] = self.furnished(attack)
        (self.root / "given/aims.json").write_text(json.dumps([asdict(t.aim) for t in self.targets.values()]))

    def furnished(self, attack: Attack) -> Target:
        """A secret of its own in every place."""
        secret = f"secret-{secrets.token_hex(8)}"
        for place in ("host", "given"):
            folder = self.root / place / attack.name
            folder.mkdir()
            (folder / "canary").write_text(secret)
            folder.chmod(0o777)
            (folder / "canary").chmod(0o666)
        victim = None
        if attack.victim:
            with (self.root / "host" / attack.name / "canary").open() as f:
                argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", secret]
                victim = subprocess.Popen(argv, env={"CANARY": secret}, stdin=f, start_new_session=True)
        (Path("/dev/shm") / f"{self.name}-{attack.name}").write_text(secret)
        aim = Aim(
            attack.name,
            str(self.root),
            str(self.job),
            self.ports,
            self.name,
            victim.pid if victim else 0,
            self.segment,
            self.name,
        )
        if attack.name == "connect_to_an_agents_socket":
            self.serve(socket.AF_UNIX, self.at(aim.host))
        target = Target(aim, secret, victim=victim)
        target.before = {**seen(aim.host), **seen(aim.given)}
        target.state = state(victim)
        return target

    def at(self, folder: Path) -> str:
        """The path of a socket below a long one."""
        handle = os.open(folder, os.O_PATH)
        self.handles = [*getattr(self, "handles", []), handle]
        return f"/proc/self/fd/{handle}/agent.sock"

    def listen(self) -> dict[str, int]:
        """One listener for each way out, by port."""
        self.serve(socket.AF_UNIX, "\0" + self.name)
        return {
            "tcp": self.serve(socket.AF_INET, ("127.0.0.1", 0)),
            "tcp6": self.serve(socket.AF_INET6, ("::1", 0)),
            "udp": self.serve(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM),
            "dns": self.serve(socket.AF_INET, ("127.0.0.53", 0), socket.SOCK_DGRAM),
            "metadata": self.serve(socket.AF_INET, ("169.254.169.254", 0)),
        }

    def serve(self, family: int, place: str | tuple[str, int], kind: int = socket.SOCK_STREAM) -> int:
        """Note down who calls."""
        line = socket.socket(family, kind)
        line.bind(place)
        if kind == socket.SOCK_STREAM:
            line.listen(64)
        if family == socket.AF_UNIX and isinstance(place, str) and place[0] == "/":
            os.chmod(place, 0o777)
        self.opened.append(line)
        threading.Thread(target=self.note, args=(line, kind), daemon=True).start()
        name = line.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    def note(self, line: socket.socket, kind: int) -> None:
        """Names that arrive, until the socket is closed."""
        while True:
            try:
                if kind == socket.SOCK_STREAM:
                    caller, _ = line.accept()
                    with caller:
                        caller.settimeout(2)
                        data = caller.recv(1000)
                else:
                    data = line.recv(1000)
            except TimeoutError:
                continue
            except OSError:
                return
            self.heard |= {name for name in self.targets if name.encode() + b"\n" in data}

    def argv(self) -> tuple[str, ...]:
        """The job."""
        aims = str(self.root / "given/aims.json")
        return (sys.executable, "-I", "-S", str(self.code / "hostile/run.py"), aims, *self.targets)

    def attack_bare(self) -> dict[str, str]:
        """Where nothing holds it: a child of a process with secrets in its environment and an open descriptor."""
        self.lonely.do(self.bare)
        return self.evidence()

    def bare(self) -> None:
        with (self.root / "host/open").open() as f:
            env = {**os.environ, "TOKEN": self.shared}
            p = subprocess.run(self.argv(), env=env, pass_fds=(f.fileno(),), capture_output=True, text=True)
        self.log = p.stdout + p.stderr

    def command(self, **fields: object) -> Command:
        """The same as a sandbox's command."""
        root = self.root
        return Command(
            argv=self.argv(),
            cwd=str(root / "work"),
            read=(sys.prefix, sys.base_prefix, str(self.code), str(root / "given")),
            write=(str(root / "work"), str(root / "jobs")),
            generated=True,
            limits=Limits.model_validate({"seconds": 60, **fields}),
        )

    def attack_warm(self, sandbox: Sandbox, *, landlock: bool = True) -> dict[str, str]:
        """In a fork of a worker that sees the whole arena; without `landlock` the fork sees it too."""
        engines = self.root / "engines"
        shutil.copytree(ENGINES, engines, ignore=lambda _, names: [name for name in names if not name.endswith(".py")])
        if not landlock:
            with (engines / "landlock.py").open("a") as f:
                f.write("\n\ndef restrict(ruleset: int) -> None:\n    os.close(ruleset)\n")
        with patch.dict(start_worker.__globals__, ENGINES=engines):
            self.end = self.lonely.do(self.forked, sandbox)
        return self.evidence()

    def forked(self, sandbox: Sandbox) -> Exit:
        trial = start_worker(self.root, sandbox)
        try:
            whole = self.command()
            argv = (whole.argv[0], *whole.argv[3:])
            write = (str(self.root / "work"),)  # who sees its own folder is never forked
            fields = {"argv": argv, "write": write, "generated": False, "worker": str(trial.socket)}
            return self.inside(sandbox, whole.model_copy(update=fields))
        finally:
            sandbox.stop(trial.worker, grace=0)

    def attack_in(self, sandbox: Sandbox, **limits: object) -> dict[str, str]:
        """In a sandbox that a process with secrets in its environment starts."""
        command = self.command(**limits)
        if isinstance(sandbox, ClusterSandbox):  # generated code stays on the machine
            command = command.model_copy(update={"generated": False})
            sandbox.memory = command.limits.memory
        self.end = self.lonely.do(self.inside, sandbox, command)
        return self.evidence()

    def inside(self, sandbox: Sandbox, command: Command) -> Exit:
        handle = os.open(self.root / "host/open", os.O_RDONLY)
        os.set_inheritable(handle, True)
        os.environ["TOKEN"] = self.shared
        try:
            sandbox.start(self.job, command)
            end = wait(sandbox, self.job, every=0.02)
        finally:
            os.close(handle)
            del os.environ["TOKEN"]
        self.log = (self.job / "log.txt").read_text(errors="replace")
        return end

    def evidence(self) -> dict[str, str]:
        """By attack: what shows that it got through, "" when nothing does."""
        return self.lonely.do(lambda: {attack.name: self.proof(attack) for attack in self.attacks})

    def proof(self, attack: Attack) -> str:
        """What can be seen of one."""
        target = self.targets[attack.name]
        aim, loot = target.aim, b""
        if (aim.work / "loot").is_file():
            loot = (aim.work / "loot").read_bytes()
        now = {**seen(aim.host), **seen(aim.given)}
        signs = {
            "a secret was carried home": any(s.encode() in loot for s in (target.secret, self.shared)),
            "it says so": attack.word and b"through" in loot,
            "it did what it wanted and ended well": self.unbound(attack, loot),
            "files changed": now != target.before,
            "its call was heard": attack.name in self.heard,
            "the stranger is not what it was": state(target.victim) != target.state,
            "the job's own folder changed": (self.job / f"forged-{attack.name}").exists(),
            "a setuid file is left": any(dangerous(path) for path in aim.work.glob("*")),
            "the machine has another name": attack.name == "rename_the_machine" and socket.gethostname() != self.name,
        }
        return "; ".join(text for text, true in signs.items() if true)

    def unbound(self, attack: Attack, loot: bytes) -> bool:
        """A bomb went off to its end, and what it left is as big as it wanted."""
        if attack.family != "resources" or not self.end.ok:
            return False
        return b"through" in loot and (attack.guards != ("log",) or len(self.log) > LOG)

    def close(self) -> None:
        """Nothing is left over."""
        for target in self.targets.values():
            (Path("/dev/shm") / f"{self.name}-{target.aim.name}").unlink(missing_ok=True)
            if target.victim is not None:
                target.victim.kill()
                target.victim.wait()
        for line in self.opened:
            line.close()
        for handle in getattr(self, "handles", []):
            os.close(handle)
        self.lonely.do(libc.shmctl, self.segment, REMOVE, None)


def seen(folder: Path) -> Seen:
    """Names, modes, times and contents; a socket has none."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
        found[str(path)] = (facts.st_mode, facts.st_mtime_ns, content)
    return found


def state(victim: subprocess.Popen[bytes] | None) -> str:
    """All that an attacker could have changed of a process."""
    if victim is None:
        return ""
    place = Path("/proc", str(victim.pid))
    try:
        words = (place / "stat").read_text().rpartition(")")[2].split()
        facts = (place / "limits").read_text(), (place / "oom_score_adj").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return f"{'stopped' if words[0] in 'tTZX' else 'lives'} {words[16]} {facts}"


def dangerous(path: Path) -> bool:
    """A device, or a program that gives its owner's rights to whoever starts it."""
    facts = path.lstat()
    special = stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)
    return special or bool(facts.st_mode & stat.S_ISUID and facts.st_uid == os.geteuid())
