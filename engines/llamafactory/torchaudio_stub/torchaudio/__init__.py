"""Stands in for torchaudio, which LLaMA-Factory imports by name even for text; copied into the engine as it is.

The real one (2.11.0) is linked against CUDA and an older torch.
"""

from __future__ import annotations

from typing import NoReturn

__version__ = "2.11.0+stub"


def load(*_: object, **__: object) -> NoReturn:
    """Raise RuntimeError: there is no audio here."""
    raise RuntimeError("torchaudio is a stub in this engine: audio inputs are not supported")


class functional:  # noqa: N801 - the name of the real module
    """The one function that LLaMA-Factory refers to."""

    resample = staticmethod(load)
