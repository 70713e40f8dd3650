"""Jobs by name: once, however often asked; attempts; logs."""

import os
import signal
import threading

import pytest

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command
from tuneloop.sandboxes.jobs import launch, log_tail, newest_attempt, read_command, wait
from tuneloop.sandboxes.process import ProcessSandbox

from .conftest import supervisor_pid

BOX = ProcessSandbox()


@pytest.fixture
def command(tmp_path):
    work = tmp_path / "work"
    work.mkdir()

    def make(shell: str, key: str = "") -> Command:
        return Command(argv=("/bin/sh", "-c", shell), cwd=str(work), write=(str(work),), key=key)

    return make


def test_the_same_key_is_the_same_job_running_or_over(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("sleep 0.3; exit 3", "a"))
    assert launch(BOX, tmp_path / "jobs", "train", command("something else", "a")) == one
    assert wait(BOX, one).code == 3
    assert launch(BOX, tmp_path / "jobs", "train", command("again", "a")) == one
    assert read_command(one).key == "a"


def test_command_is_the_key_without_a_key(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("true"))
    assert launch(BOX, tmp_path / "jobs", "train", command("true")) == one
    assert launch(BOX, tmp_path / "jobs", "train", command("false")).name == "train.2"


def test_another_key_ends_the_old_job_first(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("sleep 30", "a"))
    two = launch(BOX, tmp_path / "jobs", "train", command("true", "b"))
    assert (one.name, two.name) == ("train.1", "train.2")
    status = BOX.poll(one)
    assert status.exit is not None
    assert status.exit.reason == "stopped"
    assert newest_attempt(tmp_path / "jobs", "train") == two


def test_a_lost_job_gets_a_successor(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("sleep 30", "a"))
    os.kill(supervisor_pid(one), signal.SIGKILL)
    with pytest.raises(InfrastructureError, match="lost"):
        wait(BOX, one, every=0.02)
    two = launch(BOX, tmp_path / "jobs", "train", command("true", "a"))
    assert two.name == "train.2"
    assert wait(BOX, two).ok


def test_a_job_killed_from_outside_gets_a_successor(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("kill -9 $$", "a"))
    done = wait(BOX, one, every=0.02)
    assert (done.reason, done.code, done.killed) == ("finished", -9, True)
    two = launch(BOX, tmp_path / "jobs", "train", command("exit 7", "a"))
    assert two.name == "train.2"
    assert not wait(BOX, two).killed
    assert launch(BOX, tmp_path / "jobs", "train", command("true", "a")) == two


def test_a_job_that_met_a_full_disk_gets_a_successor(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("echo 'OSError: No space left on device'; exit 1", "a"))
    assert wait(BOX, one, every=0.02).code == 1
    assert launch(BOX, tmp_path / "jobs", "train", command("true", "a")).name == "train.2"


def test_a_job_that_was_stopped_is_started_again(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("sleep 30", "a"))
    BOX.stop(one)
    assert wait(BOX, one, every=0.02).reason == "stopped"
    assert launch(BOX, tmp_path / "jobs", "train", command("true", "a")).name == "train.2"


def test_stop_reaches_supervisor_without_pid_file(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("sleep 30", "a"))
    supervisor_pid(one)
    os.truncate(one / "lock", 0)
    BOX.stop(one)
    assert wait(BOX, one, every=0.02).reason == "stopped"


def test_a_failed_job_stays_failed_unless_a_retry_is_asked_for(tmp_path, command):
    one = launch(BOX, tmp_path / "jobs", "train", command("exit 3", "a"))
    wait(BOX, one, every=0.02)
    assert launch(BOX, tmp_path / "jobs", "train", command("true", "a")) == one
    two = launch(BOX, tmp_path / "jobs", "train", command("true", "a"), retry=True)
    assert two.name == "train.2"
    wait(BOX, two, every=0.02)
    assert launch(BOX, tmp_path / "jobs", "train", command("true", "a"), retry=True) == two


def test_ten_launches_at_once_start_once(tmp_path, command):
    found, barrier = [], threading.Barrier(10)

    def go():
        barrier.wait()
        found.append(launch(BOX, tmp_path / "jobs", "train", command("echo x >> started; sleep 0.2", "a")))

    threads = [threading.Thread(target=go) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {tmp_path / "jobs/train.1"}
    wait(BOX, found[0])
    assert (tmp_path / "work/started").read_text() == "x\n"


def test_newest_counts_and_does_not_sort_by_name(tmp_path):
    for name in ("train.2", "train.10", "train.9", "train.x", "training.99"):
        (tmp_path / name).mkdir()
    assert newest_attempt(tmp_path, "train") == tmp_path / "train.10"
    assert newest_attempt(tmp_path, "other") is None


def test_names_cannot_leave_the_folder(tmp_path, command):
    with pytest.raises(ValueError, match="job name"):
        launch(BOX, tmp_path / "jobs", "../x", command("true"))


def test_log_tail(tmp_path, command):
    folder = launch(BOX, tmp_path / "jobs", "talk", command("seq 1 1000"))
    wait(BOX, folder)
    assert log_tail(folder, 2) == "999\n1000"
    assert log_tail(tmp_path) == ""


def test_the_folder_is_private_because_commands_may_hold_tokens(tmp_path, command):
    folder = launch(BOX, tmp_path / "jobs", "talk", command("true"))
    assert folder.stat().st_mode & 0o077 == 0
