"""The supervisor's process: detaches from its starter and runs the supervisor that fits the job.

Started by `local.py` as `main(FOLDER, LOCK_FD)` with the plan on standard input, as `marshal` writes it; standard library only.
The starter returns at once. The supervisor runs the job; the watcher above the supervisor ends what is left of the job should
the supervisor be killed. Both inherit the locked descriptor: the lock is free when nothing of the job lives.
"""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH110, SIM105

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # its enums, like json's patterns, would double a start
import marshal
import os
import sys

from tuneloop.sandboxes.process_tree import adopt_orphans, descendants, send_signal
from tuneloop.sandboxes.spawn import JobLostError, Plan
from tuneloop.sandboxes.supervisor import Supervisor


def watch_supervisor(supervisor: int) -> None:
    """Wait for the supervisor; when it was killed, end the job, which is ours then."""
    signal.signal(signal.SIGTERM, lambda *_: send_signal([supervisor], signal.SIGTERM))
    _, status = os.waitpid(supervisor, 0)
    while status != 0:
        send_signal(descendants(os.getpid()), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            from tuneloop.sandboxes.cgroups import remove_orphaned  # hardly ever

            remove_orphaned(supervisor)
            return


def supervisor_for(plan: Plan) -> type[Supervisor]:
    """Who keeps a job: containers have a supervisor of their own."""
    if plan.container is None:
        return Supervisor
    from tuneloop.sandboxes.container_supervisor import ContainerSupervisor  # a third of a start, for those who need it

    return ContainerSupervisor


def main(folder: str, lock: int) -> None:
    """Detach and guard. `lock` is the inherited descriptor of the locked file."""
    plan = Plan(marshal.load(sys.stdin.buffer))  # noqa: S302 - our starter's own words
    if os.path.exists(f"{folder}/exit.json") or os.fork():
        os._exit(0)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    adopt_orphans()
    supervisor = os.fork()
    if supervisor:
        watch_supervisor(supervisor)
        return
    adopt_orphans()
    try:
        os.pwrite(lock, f"{os.getpid()} {plan.machine}\n".encode(), 0)
    except OSError:  # on a full disk; a lock without a name in it counts as kept
        pass
    keeping = supervisor_for(plan)(folder, plan)
    try:
        keeping.run()
    except JobLostError as e:
        keeping.log.write(f"{e}\n".encode())
        keeping.remove_cgroup()
        sys.exit(1)
