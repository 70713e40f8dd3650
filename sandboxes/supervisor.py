"""Guards one job from outside its sandbox: keeps its log, enforces its limits and writes `exit.json` last.

Started by `local.py` as `main(FOLDER, LOCK_FD)` with the plan on standard input, as `marshal` writes it; standard library only.
The starter returns at once. The keeper runs the job; the watcher above the keeper ends what is left of the job should
the keeper be killed. Both inherit the locked descriptor: the lock is free when nothing of the job lives.
"""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH105, PTH108, PTH110, PTH123, SIM105

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # its enums, like json's patterns, would double a start
import marshal
import os
import select
import sys
import time

from tuneloop.sandboxes.below import used
from tuneloop.sandboxes.durable import sync_below
from tuneloop.sandboxes.joblog import Log
from tuneloop.sandboxes.spawn import Cold, Lost, NotStarted, Plan, Spawned
from tuneloop.sandboxes.tree import adopt_orphans, proportional, resident, send, tree

TYPE_CHECKING = False  # typing would be a third of a supervisor's start as well
if TYPE_CHECKING:
    from tuneloop.sandboxes.cgroups import Group
    from tuneloop.sandboxes.contained import Contained
    from tuneloop.sandboxes.warm import Forked

TICK, SLOW_TICK, SHARE = 0.1, 0.5, 100  # seconds between two looks at the job: a hundredth of what it has run so far
FULL_DISK_TRIES = 30  # a second apart: the end of a job is told when there is room again


class Keeper:
    """Runs one job to its end."""

    def __init__(self, folder: str, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.log = Log(f"{folder}/log.txt", plan.log)
        self.pipe, self.output = os.pipe()
        self.open = True
        self.nap = TICK
        self.started = time.monotonic()
        self.next_look = self.next_walk = self.started
        self.asked, self.grace = False, plan.grace
        self.peak, self.noted = 0, 0
        self.group = group_of(plan)

    def run(self) -> None:
        """Start, watch, end, tell."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "asked", True))
        try:
            self.job = self.begin()
        except NotStarted as e:
            self.log.write(str(e).encode())
            self.tell(127, "failed_to_start", 0, 0.0)
            return
        os.close(self.output)
        reason = self.watch()
        if reason in ("timeout", "stopped"):
            self.ask_to_end()
        self.sweep()
        self.drain()
        if reason == "finished" and self.too_full(float("inf")):
            reason = "disk"
        code, reason = self.verdict(reason)
        wanted = (self.plan.memory or 0) if reason == "memory" else 0  # the kernel let it have no more than that
        self.tell(code, reason, max(self.peak, self.job.peak(), wanted), self.job.cpu())

    def begin(self) -> Spawned | Forked | Contained:
        """The started job: a fork of a warm engine where one is asked for and answers. Raises NotStarted."""
        if self.plan.warm is None:
            return self.cold()
        from tuneloop.sandboxes.warm import Forked  # sockets cost as much as all the rest

        try:
            return Forked(self.plan, self.output, self.group)
        except Cold as e:
            note = f"cold start: {e}\n".encode()
            self.noted = len(note)
            self.log.write(note)
            return self.cold()

    def cold(self) -> Spawned | Contained:
        """The job from nothing. Raises NotStarted."""
        return Spawned(self.plan, self.output, self.group)

    def watch(self) -> str:
        """Wait until the job ends by itself or has to; the reason."""
        while True:
            self.pump(self.tick())
            self.job.reap()
            if self.job.code is not None:
                return (self.job.code and self.enforced()) or "finished"
            reason = self.excess()
            if reason:
                return reason

    def tick(self) -> float:
        """Long jobs are looked at less often: ten looks a second all day would be work."""
        return min(SLOW_TICK, max(TICK, (time.monotonic() - self.started) / SHARE))

    def excess(self) -> str:
        """Which limit is passed, "" for none; looks at most once a tick."""
        now = time.monotonic()
        if now < self.next_look:
            return ""
        self.next_look = now + self.tick()
        if self.asked or self.stop_wanted():
            return "stopped"
        if self.plan.seconds is not None and now - self.started > self.plan.seconds:
            return "timeout"
        return self.enforced() or self.too_big() or self.too_full(now)

    def enforced(self) -> str:
        """Which limit the kernel enforced by itself, "" for none."""
        return self.group.excess() if self.group else ""

    def stop_wanted(self) -> bool:
        """Somebody wrote `stop`; it holds the seconds of grace."""
        try:
            with open(f"{self.folder}/stop") as f:
                self.grace = float(f.read() or self.grace)
        except FileNotFoundError:
            return False
        return True

    def too_big(self) -> str:
        """Processes and memory of the whole tree."""
        plan, pids = self.plan, self.job.processes()
        total = sum(map(resident, pids))
        self.peak = max(self.peak, total)
        if plan.processes is not None and len(pids) - self.job.wrappers > plan.processes:
            return "processes"
        if plan.memory is not None and total > plan.memory and sum(map(proportional, pids)) > plan.memory:
            return "memory"
        return ""

    def too_full(self, now: float) -> str:
        """Disk; a walk that takes long is made seldom."""
        if self.plan.disk is None or now < self.next_walk:
            return ""
        full = used(self.plan.write, self.job.processes()) > self.plan.disk
        after = time.monotonic()
        self.next_walk = after + max(1.0, 20 * (after - now))
        return "disk" if full else ""

    def pump(self, seconds: float) -> None:
        """Move output into the log for at most `seconds`; returns at once when some came or the last writer left."""
        if not self.open:
            time.sleep(min(self.nap, seconds))
            self.nap *= 2
        elif select.select([self.pipe], [], [], seconds)[0]:
            data = os.read(self.pipe, 1 << 16)
            self.log.write(data)
            self.open = bool(data)
            self.nap = 0.002

    def drain(self) -> None:
        """What is still in the pipe once nobody writes."""
        while self.open and select.select([self.pipe], [], [], 0)[0]:
            self.pump(0)

    def ask_to_end(self) -> None:
        """SIGTERM, then wait for the grace."""
        self.job.ask()
        deadline = time.monotonic() + self.grace
        while self.job.code is None and time.monotonic() < deadline:
            self.pump(TICK / 4)
            self.job.reap()

    def sweep(self) -> None:
        """End every process that is left."""
        if self.group:
            self.group.shut()
        while self.job.reap():
            send(self.job.processes(), signal.SIGKILL)
            self.pump(0.01)

    def verdict(self, reason: str) -> tuple[int, str]:
        """Exit status and reason as the job itself would have shown them without wrappers."""
        code = self.job.verdict()
        if self.plan.refusal and code == 1 and reason == "finished" and self.refused():
            return 127, "failed_to_start"
        return code, reason

    def refused(self) -> bool:
        """The wrapper spoke before the job could."""
        with open(f"{self.folder}/log.txt", "rb") as f:
            f.seek(self.noted)
            return f.read(256).startswith(self.plan.refusal.encode())

    def tell(self, code: int, reason: str, peak: int, cpu: float) -> None:
        """Results on disk, then `exit.json`, last. Raises OSError when they cannot be: the job is lost then."""
        seconds = time.monotonic() - self.started
        self.leave()
        self.log.close()
        if (code, reason) == (0, "finished"):  # any other end vouches for no result
            sync_below(self.plan.write)
        end = f'{{"code": {code}, "reason": "{reason}", "seconds": {seconds:.3f}, "peak_memory": {peak}, "cpu": {cpu:.3f}}}'
        for left in range(FULL_DISK_TRIES, -1, -1):
            try:
                write_end(self.folder, end)
                break
            except OSError:
                if not left:
                    raise
                time.sleep(1)

    def leave(self) -> None:
        """Nothing of the job lives: its group can go."""
        if self.group:
            self.group.remove()


def group_of(plan: Plan) -> Group | None:
    """The kernel's hold on a job with limits; a container has walls of its own."""
    walled = plan.container is not None and plan.warm is None
    if walled or (plan.memory is None and plan.processes is None):
        return None
    from tuneloop.sandboxes.cgroups import Group  # for those who need it

    return Group(plan.memory, plan.processes)


def write_end(folder: str, text: str) -> None:
    """`exit.json`, whole or not at all. Raises OSError."""
    part = f"{folder}/.exit.json.part"
    try:
        with open(part, "w") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, f"{folder}/exit.json")
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)


def guard(keeper: int) -> None:
    """Wait for the keeper; when it was killed, end the job, which is ours then."""
    signal.signal(signal.SIGTERM, lambda *_: send([keeper], signal.SIGTERM))
    _, status = os.waitpid(keeper, 0)
    while status != 0:
        send(tree(os.getpid()), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            from tuneloop.sandboxes.cgroups import bury  # hardly ever

            bury(keeper)
            return


def keeper_for(plan: Plan) -> type[Keeper]:
    """Who keeps a job: containers have a keeper of their own."""
    if plan.container is None:
        return Keeper
    from tuneloop.sandboxes.contained import ContainerKeeper  # a third of a start, for those who need it

    return ContainerKeeper


def main(folder: str, lock: int) -> None:
    """Detach and guard. `lock` is the inherited descriptor of the locked file."""
    plan = Plan(marshal.load(sys.stdin.buffer))  # noqa: S302 - our starter's own words
    if os.path.exists(f"{folder}/exit.json") or os.fork():
        os._exit(0)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    adopt_orphans()
    keeper = os.fork()
    if keeper:
        guard(keeper)
        return
    adopt_orphans()
    try:
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError:  # on a full disk; a lock without a name in it counts as kept
        pass
    keeping = keeper_for(plan)(folder, plan)
    try:
        keeping.run()
    except Lost as e:
        keeping.log.write(f"{e}\n".encode())
        keeping.leave()
        sys.exit(1)
