"""Images are named when they were verified; what fails leaves none; one that is missing is told with the cure."""

import io
import json
import tarfile

import pytest

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.sandboxes.docker import IMAGE, engine_image_of
from tuneloop.sandboxes.docker_daemon import build_image, find_daemon, has_image, need_image, ready_image, remove_image

TAG = "tuneloop-test:images"


@pytest.fixture
def context(tmp_path, docker_host):
    """A Dockerfile on the image of jobs; the test's image is gone afterwards."""
    place = tmp_path / "context.tar"

    def make(*lines: str):
        data = "\n".join(("ARG BASE", "FROM ${BASE}", *lines)).encode()
        with tarfile.open(place, "w") as tar:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        return place

    yield make
    remove_image(find_daemon(), TAG)


def images() -> set[str]:
    return {one["Id"] for one in find_daemon().daemon.ask("GET", "/images/json?all=1")}


def test_an_image_has_its_name_when_it_was_verified(context):
    base = ready_image(find_daemon())
    seen = []
    build_image(
        context("COPY . /"), TAG, {"BASE": base}, {"tuneloop.test": "1"}, lambda i: seen.append((i, has_image(TAG)))
    )
    assert seen[0][0].startswith("sha256:")
    assert not seen[0][1]
    assert has_image(TAG)


def test_what_does_not_pass_leaves_no_image(context):
    base, before = ready_image(find_daemon()), images()

    def refuse(image: str) -> None:
        raise InfrastructureError(f"{image} does not work")

    with pytest.raises(InfrastructureError, match="does not work"):
        build_image(context("COPY . /unverified"), TAG, {"BASE": base}, {}, refuse)
    assert not has_image(TAG)
    assert images() == before


def test_a_step_that_fails_is_told_in_one_line(context):
    base, before = ready_image(find_daemon()), images()
    with pytest.raises(InfrastructureError, match=r"was not built: .*nonesuch") as e:
        build_image(context("COPY nonesuch /"), TAG, {"BASE": base}, {}, lambda _: None)
    assert "\n" not in str(e.value)
    assert images() == before


def test_nothing_is_pulled(docker_host):
    with pytest.raises(InvalidRequestError, match="nothing is pulled unasked; right is `docker pull debian:nonesuch`"):
        need_image("debian:nonesuch", "`docker pull debian:nonesuch`")


def test_an_engines_image_that_is_gone_is_told_with_the_cure(tmp_path, docker_host):
    assert engine_image_of(str(tmp_path / "bin/python")) == ""
    (tmp_path / IMAGE).write_text(json.dumps({"image": "tuneloop-llamafactory:gone"}))
    with pytest.raises(InvalidRequestError, match="tuneloop engines build --docker"):
        engine_image_of(str(tmp_path / "bin/python"))


@pytest.mark.parametrize("name", ["", "a b", "UPPER:x", "../../info", "x/../y", "-x", "a:b:c"])
def test_invalid_name_differs_from_missing_one(name):
    with pytest.raises(InvalidRequestError, match="is no name of an image; right is one like debian:bookworm"):
        need_image(name, "that")
