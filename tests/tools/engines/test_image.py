"""Engines as images: what goes in, what is asked for before anything costs; the whole build in `make soak`."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_json
from tuneloop.core.job import Command
from tuneloop.sandboxes.docker import IMAGE, DockerSandbox
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.tools.engines import Engine
from tuneloop.tools.engines.image import check_image, engine_image, write_context


def quiet(*_: object) -> None:
    """Nobody watches."""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Folders as an engine has them; nothing in it runs."""
    folder, python = tmp_path / "engines/llamafactory-1", tmp_path / "python"
    for file in (
        folder / "bin/python",
        folder / "lib/site-packages/torch.py",
        python / "bin/python3",
        python / "lib/os.py",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (python / "lib/site-packages").mkdir()
    (python / "lib/site-packages/mine.py").touch()
    readable = (str(folder), str(python), "/usr/bin/env")
    return Engine("llamafactory", folder, folder / "bin/python", folder / "bin", readable, "1", "identity")


def test_build_context_holds_engine_and_interpreter(engine: Engine, tmp_path: Path) -> None:
    write_context(engine, tmp_path / "context.tar")
    with tarfile.open(tmp_path / "context.tar") as tar:
        files = {f"/{entry.name}" for entry in tar if entry.isfile()}
    python = tmp_path / "python"
    wanted = {engine.folder / "bin/python", engine.folder / "lib/site-packages/torch.py"}
    wanted |= {python / "bin/python3", python / "lib/os.py", Path("/Dockerfile")}
    assert files == set(map(str, wanted))


def test_a_disk_without_room_for_the_context_is_told(engine: Engine) -> None:
    with pytest.raises(InfrastructureError, match="right is room on that disk"):
        write_context(engine, Path("/dev/full"))


def test_a_base_has_to_be_there(engine: Engine, docker_host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequestError, match=r"no image debian:nonesuch.*`docker pull debian:nonesuch`"):
        engine_image(engine, "debian:nonesuch", quiet)
    monkeypatch.setenv("PATH", "/nonesuch")
    monkeypatch.setattr("tuneloop.tools.engines.image.BASE", "tuneloop-nonesuch:")
    with pytest.raises(InvalidRequestError, match=r"right is --base IMAGE, or `apt install debootstrap`"):
        engine_image(engine, "", quiet)
    assert not (engine.folder / IMAGE).exists()


@pytest.mark.soak
def test_both_engines_as_images(llamafactory: Engine, opencompass: Engine, docker_host: str, tmp_path: Path) -> None:
    for engine in (llamafactory, opencompass):
        place = engine.folder / IMAGE
        try:
            image = engine_image(engine, "", quiet)
            assert read_json(place)["image"] == image == engine_image(engine, "", quiet)
            check_image(engine, image)
            work = tmp_path / engine.name
            work.mkdir()
            command = Command(
                argv=(
                    str(engine.python),
                    "-c",
                    "import torch; print(open('/etc/debian_version').read(), torch.ones(2))",
                ),
                cwd=str(work),
                read=engine.readable,
                write=(str(work),),
            )
            job = launch(DockerSandbox(), tmp_path / "jobs", engine.name, command)
            assert wait(DockerSandbox(), job).ok, log_tail(job)
            assert "tensor([1., 1.])" in log_tail(job)
        finally:
            place.unlink(missing_ok=True)
