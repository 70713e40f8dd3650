"""Guards one job from outside its sandbox: keeps its log, enforces its limits and writes `exit.json` last.

`supervisor_main.py` starts it. Standard library only.
"""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH105, PTH108, PTH110, PTH123, SIM105

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # its enums, like json's patterns, would double a start
import _thread
import os
import select
import time

from tuneloop.sandboxes.job_output import BoundedLog, fsync_below
from tuneloop.sandboxes.process_tree import acting_as, proportional_bytes, resident_bytes, send_signal
from tuneloop.sandboxes.safe_walk import disk_usage
from tuneloop.sandboxes.spawn import NotStartedError, Plan, SpawnedJob, WorkerUnavailableError

TYPE_CHECKING = False  # typing would be a third of a supervisor's start as well
if TYPE_CHECKING:
    from tuneloop.sandboxes.cgroups import CgroupLimits
    from tuneloop.sandboxes.spawn import SupervisedJob

TICK, SLOW_TICK, SHARE = 0.1, 0.5, 100  # seconds between two looks at the job: a hundredth of what it has run so far
SIGN = 10.0  # seconds between two signs of life for other machines: a job may outlive who started it
FULL_DISK_TRIES = 30  # a second apart: the end of a job is told when there is room again


class Supervisor:
    """Runs one job to its end."""

    def __init__(self, folder: str, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.log = BoundedLog(f"{folder}/log.txt", plan.log)
        self.pipe, self.output = os.pipe()
        self.open = True
        self.interval = TICK
        self.started = time.monotonic()
        self.next_look = self.next_walk = self.started
        self.signed = time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps
        self.asked, self.grace = False, plan.grace
        self.peak, self.noted_seconds = 0, 0
        self.group = open_cgroup(plan)
        self.lease = lock_lease(plan.lease)

    def run(self) -> None:
        """Start, watch, end, tell."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "asked", True))
        try:
            self.job = self.start_job()
        except NotStartedError as e:
            self.log.write(str(e).encode())
            self.write_result(127, "failed_to_start", 0, 0.0)
            return
        os.close(self.output)
        reason = self.watch()
        if reason in ("timeout", "stopped"):
            self.terminate()
        self.kill_rest()
        self.remove_scratch()
        self.drain()
        if reason == "finished" and self.exceeds_disk(float("inf")):
            reason = "disk"
        code, reason = self.verdict(reason)
        wanted = (self.plan.memory or 0) if reason == "memory" else 0  # the kernel let it have no more than that
        self.write_result(code, reason, max(self.peak, self.job.peak(), wanted), self.job.cpu())

    def start_job(self) -> SupervisedJob:
        """The started job: a fork of a warm engine where one is asked for and answers. Raises NotStarted."""
        if self.plan.warm is None:
            return self.start_cold()
        from tuneloop.sandboxes.warm_job import ForkedJob  # sockets cost as much as all the rest

        try:
            return ForkedJob(self.plan, self.output, self.group)
        except WorkerUnavailableError as e:
            note = f"cold start: {e}\n".encode()
            self.noted_seconds = len(note)
            self.log.write(note)
            return self.start_cold()

    def start_cold(self) -> SupervisedJob:
        """The job from nothing. Raises NotStarted."""
        return SpawnedJob(self.plan, self.output, self.group)

    def watch(self) -> str:
        """Wait until the job ends by itself or has to; the reason."""
        while True:
            self.read_output(self.tick())
            self.job.reap()
            if self.job.code is not None:
                return (self.job.code and self.kernel_enforced_limit()) or "finished"
            reason = self.exceeded_limit()
            if reason:
                return reason

    def tick(self) -> float:
        """Long jobs are looked at less often: ten looks a second all day would be work."""
        return min(SLOW_TICK, max(TICK, (time.monotonic() - self.started) / SHARE))

    def exceeded_limit(self) -> str:
        """Which limit is passed, "" for none; looks at most once a tick."""
        now = time.monotonic()
        if now < self.next_look:
            return ""
        self.next_look = now + self.tick()
        if self.is_taken_over() or self.asked or self.is_stop_requested() or self.is_forsaken():
            return "stopped"
        if self.plan.seconds is not None and now - self.started > self.plan.seconds:
            return "timeout"
        return self.kernel_enforced_limit() or self.exceeds_memory_or_processes() or self.exceeds_disk(now)

    def is_forsaken(self) -> bool:
        """Whether the process that answers for the job elsewhere is gone."""
        return self.plan.runner > 0 and not os.path.exists(f"/proc/{self.plan.runner}")

    def is_taken_over(self) -> bool:
        """Give signs of life. True: none came for so long that another machine has taken the run, which begins the job anew.

        A job on a node of a cluster always belongs to a run of another machine; its runner answers for it.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        silent = now - self.signed
        if silent < SIGN:
            return False
        try:
            os.utime(self.plan.lock)
            if self.plan.lease:
                os.utime(self.plan.lease)
            taken = silent > self.plan.fence and not self.plan.runner and other_machine_holds(self.plan)
        except OSError:  # the server is away for a while
            return False
        self.signed = now
        return taken

    def kernel_enforced_limit(self) -> str:
        """Which limit the kernel enforced by itself, "" for none."""
        return self.group.exceeded_limit() if self.group else ""

    def is_stop_requested(self) -> bool:
        """Somebody wrote `stop`; it holds the seconds of grace."""
        try:
            with open(f"{self.folder}/stop") as f:
                self.grace = float(f.read() or self.grace)
        except FileNotFoundError:
            return False
        return True

    def exceeds_memory_or_processes(self) -> str:
        """Processes and memory of the whole tree."""
        plan, pids = self.plan, self.job.processes()
        total = sum(map(resident_bytes, pids))
        self.peak = max(self.peak, total)
        if plan.processes is not None and len(pids) - self.job.wrappers > plan.processes:
            return "processes"
        if plan.memory is None or total <= plan.memory:
            return ""
        with acting_as(plan.user):
            return "memory" if sum(map(proportional_bytes, pids)) > plan.memory else ""

    def exceeds_disk(self, now: float) -> str:
        """Disk; a walk that takes long is made seldom."""
        if self.plan.disk is None or now < self.next_walk:
            return ""
        with acting_as(self.plan.user):
            full = disk_usage(self.plan.write, self.job.processes()) > self.plan.disk
        after = time.monotonic()
        self.next_walk = after + max(1.0, 20 * (after - now))
        return "disk" if full else ""

    def read_output(self, seconds: float) -> None:
        """Move output into the log for at most `seconds`; returns at once when some came or the last writer left."""
        if not self.open:
            time.sleep(min(self.interval, seconds))
            self.interval *= 2
        elif select.select([self.pipe], [], [], seconds)[0]:
            data = os.read(self.pipe, 1 << 16)
            self.log.write(data)
            self.open = bool(data)
            self.interval = 0.002

    def drain(self) -> None:
        """The rest of the pipe after its last writer ended."""
        while self.open and select.select([self.pipe], [], [], 0)[0]:
            self.read_output(0)

    def terminate(self) -> None:
        """SIGTERM, then wait for the grace."""
        self.job.ask()
        deadline = time.monotonic() + self.grace
        while self.job.code is None and time.monotonic() < deadline:
            self.read_output(TICK / 4)
            self.job.reap()

    def kill_rest(self) -> None:
        """End every process that is left."""
        if self.group:
            self.group.block_forks()
        while self.job.reap():
            send_signal(self.job.processes(), signal.SIGKILL)
            self.read_output(0.01)

    def verdict(self, reason: str) -> tuple[int, str]:
        """Exit status and reason as the job itself would have shown them without wrappers."""
        code = self.job.verdict()
        if self.plan.refusal and code == 1 and reason == "finished" and self.refused():
            return 127, "failed_to_start"
        return code, reason

    def refused(self) -> bool:
        """The wrapper spoke before the job could."""
        with open(f"{self.folder}/log.txt", "rb") as f:
            f.seek(self.noted_seconds)
            return f.read(256).startswith(self.plan.refusal.encode())

    def write_result(self, code: int, reason: str, peak: int, cpu: float) -> None:
        """Results on disk, then `exit.json`, last. Raises OSError when they cannot be: the job is lost then."""
        seconds = time.monotonic() - self.started
        self.remove_cgroup()
        self.log.close()
        if (code, reason) == (0, "finished"):  # any other end vouches for no result
            self.fsync_results()
        end = f'{{"code": {code}, "reason": "{reason}", "seconds": {seconds:.3f}, "peak_memory": {peak}, "cpu": {cpu:.3f}}}'
        for left in range(FULL_DISK_TRIES, -1, -1):
            try:
                write_exit(self.folder, end)
                break
            except OSError:
                if not left:
                    raise
                time.sleep(1)

    def fsync_results(self) -> None:
        """What the job wrote is on disk; signs of life are given meanwhile, for a large model may take minutes."""
        over = _thread.allocate_lock()
        over.acquire()

        def give_signs() -> None:
            while not over.acquire(timeout=TICK):
                self.is_taken_over()

        _thread.start_new_thread(give_signs, ())
        try:
            fsync_below(self.plan.write)
        finally:
            over.release()

    def remove_scratch(self) -> None:
        """What the sandbox made for the job goes with it."""
        if self.plan.confined:
            from tuneloop.sandboxes.confinement import remove_tree

            remove_tree(self.plan.confined["scratch"])

    def remove_cgroup(self) -> None:
        """Nothing of the job lives: its group can go."""
        if self.group:
            self.group.remove()


def lock_lease(lease: str) -> int:
    """A shared lock on this machine's lease on the home, as its orchestrators have one; -1 where nothing is leased."""
    if not lease:
        return -1
    import fcntl  # on network file systems alone

    handle = os.open(lease, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks
        pass
    return handle


def other_machine_holds(plan: Plan) -> bool:
    """Whether the newest lease of the run is another machine's."""
    names = os.listdir(plan.run_lease) if plan.run_lease else []  # noqa: PTH208
    numbered = {int(name.split(".")[0]): name for name in names if name.split(".")[0].isdecimal()}
    if not numbered:
        return False
    with open(f"{plan.run_lease}/{numbered[max(numbered)]}") as f:
        return f'"{plan.machine}"' not in f.read(4096)


def open_cgroup(plan: Plan) -> CgroupLimits | None:
    """The kernel's hold on a job with limits; a container has limits of its own."""
    walled = plan.container is not None and plan.warm is None
    if walled or (plan.memory is None and plan.processes is None):
        return None
    from tuneloop.sandboxes.cgroups import CgroupLimits  # imported only when needed

    return CgroupLimits(plan.memory, plan.processes)


def write_exit(folder: str, text: str) -> None:
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
