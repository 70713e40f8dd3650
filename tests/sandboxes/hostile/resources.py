"""More than a job may have, in small: LIMITS are small too, so that nothing suffers where nothing holds it."""

from __future__ import annotations

import mmap
import os
import signal
import time
from pathlib import Path

from .declare import Aim, attack

MANY = 150 << 20
LIMITS = {"memory": 60 << 20, "processes": 8, "disk": 4 << 20, "seconds": 0.5, "log": 5000}
LONG = 0.6  # seconds that a job goes on being too big: a watcher has to see it


def touch(view: bytearray | mmap.mmap, size: int) -> None:
    """Every page is really there."""
    for place in range(0, size, 4096):
        view[place] = 1


def stay(aim: Aim) -> None:
    """Nobody ended it, though the watcher of a busy machine had its time."""
    time.sleep(5 * LONG)
    aim.through()


def fill(path: Path | str, size: int) -> None:
    """A file of so many bytes on disk."""
    with open(path, "wb") as f:
        for _ in range(size >> 20):
            f.write(b"x" * (1 << 20))


@attack("memory")
def allocate(aim: Aim) -> None:
    block = bytearray(MANY)
    touch(block, MANY)
    stay(aim)


@attack("memory")
def allocate_in_children(aim: Aim) -> None:
    there, here = os.pipe()
    pids = []
    for _ in range(5):
        pids.append(os.fork())
        if pids[-1] == 0:
            block = bytearray(MANY // 5)  # named, or it would be gone before the others are there
            touch(block, MANY // 5)
            os.write(here, b"x")
            time.sleep(50 * LONG)  # all are there at the same time, however busy the machine is
            os._exit(0)
    os.close(here)
    for _ in pids:
        os.read(there, 1)
    stay(aim)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@attack("memory")
def allocate_shared_pages(aim: Aim) -> None:
    block = mmap.mmap(-1, MANY)
    touch(block, MANY)
    stay(aim)


@attack("memory counted by the kernel")
def allocate_in_a_file_of_memory(aim: Aim) -> None:
    handle = os.memfd_create("bomb")
    fill(f"/proc/self/fd/{handle}", MANY)
    stay(aim)


@attack("memory counted by the kernel")
def allocate_in_shared_memory(aim: Aim) -> None:
    place = f"/dev/shm/bomb-{aim.host_name}"
    try:
        fill(place, MANY)
        stay(aim)
    finally:
        os.unlink(place)


@attack("processes")
def fork_many(aim: Aim) -> None:
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(3 * LONG)
            os._exit(0)
    stay(aim)


@attack("processes")
def fork_many_with_sessions_of_their_own(aim: Aim) -> None:
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3 * LONG)
            os._exit(0)
    stay(aim)


@attack("disk")
def write_a_big_file(aim: Aim) -> None:
    fill(aim.work / "big", 20 << 20)
    stay(aim)


@attack("disk")
def write_and_be_gone_at_once(aim: Aim) -> None:
    fill(aim.work / "big", 20 << 20)
    aim.through()


@attack("disk")
def write_a_file_without_a_name(aim: Aim) -> None:
    with (aim.work / "big").open("wb") as f:
        (aim.work / "big").unlink()
        f.write(b"x" * (20 << 20))
        f.flush()
        time.sleep(2)  # the disk is looked at once a second
        stay(aim)


@attack("disk")
def write_many_empty_files(aim: Aim) -> None:
    for i in range(1500):
        (aim.work / f"{i}").touch()
    stay(aim)


@attack("disk")
def write_many_folders(aim: Aim) -> None:
    for i in range(1500):
        (aim.work / f"{i}").mkdir()
    stay(aim)


@attack("disk")
def write_below_a_path_that_is_too_long(aim: Aim) -> None:
    os.chdir(aim.work)
    for _ in range(40):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    fill("big", 20 << 20)
    stay(aim)


@attack("disk")
def write_where_the_watcher_may_not_look(aim: Aim) -> None:
    (aim.work / "closed").mkdir()
    fill(aim.work / "closed/big", 20 << 20)
    (aim.work / "closed").chmod(0)
    stay(aim)


@attack("log")
def write_an_endless_log(aim: Aim) -> None:
    for _ in range(200):
        os.write(1, b"x" * 10_000)
    aim.through()


@attack("seconds")
def sleep_for_ever(aim: Aim) -> None:
    time.sleep(3 * LONG)
    aim.through()


@attack("seconds")
def be_deaf_to_requests(aim: Aim) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3 * LONG)
    aim.through()


@attack("seconds")
def be_busy_for_ever(aim: Aim) -> None:
    end = time.monotonic() + 3 * LONG
    while time.monotonic() < end:
        pass
    aim.through()
