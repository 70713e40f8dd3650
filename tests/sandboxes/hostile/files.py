"""Files that are none of the job's business: read, changed, replaced, linked, remounted."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

from .declare import Aim, attack, checked, libc

MS_REMOUNT, MS_BIND = 32, 4096


@attack("mounts")
def read_a_key_by_its_path(aim: Aim) -> None:
    aim.steal(aim.host / "canary")


@attack("mounts")
def read_a_key_up_and_over(aim: Aim) -> None:
    up = "../" * (len(aim.work.parts) - 1)
    os.chdir(aim.work)
    aim.steal(f"{up}{aim.host}/canary".replace("//", "/"))


@attack("mounts")
def read_a_key_through_a_link(aim: Aim) -> None:
    (aim.work / "link").symlink_to(aim.host / "canary")
    aim.steal(aim.work / "link")


@attack("mounts")
def read_a_key_through_a_linked_folder(aim: Aim) -> None:
    (aim.work / "folder").symlink_to(aim.host.parent)
    aim.steal(aim.work / "folder" / aim.name / "canary")


@attack("mounts")
def read_a_key_through_the_root_of_another_process(aim: Aim) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            aim.steal(f"{process}/root{aim.host}/canary")
        except OSError:
            continue


@attack("mounts")
def read_a_key_through_a_hard_link(aim: Aim) -> None:
    os.link(aim.host / "canary", aim.work / "hard")
    aim.steal(aim.work / "hard")


@attack("descriptors")
def read_a_key_through_an_open_descriptor(aim: Aim) -> None:
    for number in os.listdir("/proc/self/fd"):
        try:
            aim.loot(os.pread(int(number), 1000, 0))
        except OSError:
            continue


@attack("mounts")
def list_the_folder_of_other_runs(aim: Aim) -> None:
    for path in (Path(aim.root, "host") / aim.name).iterdir():
        aim.steal(path)


@attack("mounts")
def copy_the_sealed_test(aim: Aim) -> None:
    with (aim.host / "canary").open("rb") as source, (aim.work / "loot").open("wb") as target:
        os.sendfile(target.fileno(), source.fileno(), 0, 1000)


@attack("mounts")
def overwrite_scores(aim: Aim) -> None:
    (aim.host / "canary").write_text('{"value": 100}')


@attack("mounts")
def overwrite_scores_through_a_link(aim: Aim) -> None:
    (aim.work / "scores.json").symlink_to(aim.host / "canary")
    (aim.work / "scores.json").write_text('{"value": 100}')


@attack("mounts")
def replace_scores_by_rename(aim: Aim) -> None:
    (aim.work / "forged").write_text("{}")
    (aim.work / "forged").rename(aim.host / "canary")


@attack("mounts")
def remove_the_evidence(aim: Aim) -> None:
    (aim.host / "canary").unlink()


@attack("mounts")
def leave_a_file_in_the_next_experiment(aim: Aim) -> None:
    (aim.host / "process_data.py").write_text("import os")


@attack("own folder")
def forge_exit_json(aim: Aim) -> None:
    Path(aim.job, f"forged-{aim.name}").write_text('{"code": 0, "reason": "finished", "seconds": 1}')


@attack("own folder")
def take_the_lock(aim: Aim) -> None:
    os.link(Path(aim.job, "lock"), Path(aim.job, f"forged-{aim.name}"))


@attack("own folder")
def read_the_command_with_its_tokens(aim: Aim) -> None:
    aim.steal(Path(aim.job, "secret"))


@attack("read-only")
def overwrite_the_engine(aim: Aim) -> None:
    (aim.given / "canary").write_text("import os")


@attack("read-only")
def append_to_the_evaluator(aim: Aim) -> None:
    with (aim.given / "canary").open("a") as f:
        f.write("\ndef correct(*_): return True\n")


@attack("read-only")
def replace_the_base_model(aim: Aim) -> None:
    (aim.given / "other").write_bytes(b"other weights")
    (aim.given / "other").rename(aim.given / "canary")


@attack("read-only")
def remove_the_base_model(aim: Aim) -> None:
    (aim.given / "canary").unlink()


@attack("read-only")
def cut_the_base_model(aim: Aim) -> None:
    os.truncate(aim.given / "canary", 0)


@attack("read-only")
def write_a_given_file_through_memory(aim: Aim) -> None:
    with (aim.given / "canary").open("r+b") as f, mmap.mmap(f.fileno(), 0) as view:
        view[0:6] = b"forged"


@attack("read-only")
def write_a_given_file_through_proc(aim: Aim) -> None:
    handle = os.open(aim.given / "canary", os.O_RDONLY)
    with open(f"/proc/self/fd/{handle}", "w") as f:
        f.write("forged")


@attack("read-only")
def write_a_given_file_through_a_hard_link(aim: Aim) -> None:
    os.link(aim.given / "canary", aim.given / "hard")
    (aim.given / "hard").write_text("forged")


@attack("read-only")
def open_the_given_folder_to_everybody(aim: Aim) -> None:
    (aim.given / "canary").chmod(0o600)


@attack("read-only")
def turn_back_the_clock_of_a_given_file(aim: Aim) -> None:
    os.utime(aim.given / "canary", (1, 1))


@attack("capabilities", "user namespace", "system calls")
def remount_a_given_folder_writable(aim: Aim) -> None:
    place = str(aim.given.parent).encode()
    libc.mount(place, place, None, MS_BIND, None)
    checked(libc.mount(None, place, None, MS_REMOUNT | MS_BIND, None), "mount")
    (aim.given / "canary").write_text("forged")


@attack("capabilities", "user namespace")
def make_a_device(aim: Aim) -> None:
    os.mknod(aim.work / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))


@attack("system calls", kept={"docker": "the file is of the jobs' own user, whose rights are nobody's"})
def leave_a_setuid_program(aim: Aim) -> None:
    (aim.work / "setuid").write_bytes(b"#!/bin/sh\n")
    (aim.work / "setuid").chmod(0o4755)


@attack("devices")
def read_shared_memory_of_others(aim: Aim) -> None:
    for path in Path("/dev/shm").glob(f"{aim.host_name}-{aim.name}"):
        aim.steal(path)
