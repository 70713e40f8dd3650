"""Stored values with a checksum: a flipped bit in a checkpoint is noticed, not believed."""

from __future__ import annotations

import zlib
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

CHECKSUM_TAG = "+crc32"
SIZE = 4


class DamagedError(ValueError):
    """What is stored is not what was written."""


class ChecksumSerializer(SerializerProtocol):
    """Another serializer's bytes and their CRC-32; values stored without one are read as they are."""

    def __init__(self, inner: SerializerProtocol) -> None:
        self.inner = inner

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Type and bytes, sealed."""
        kind, data = self.inner.dumps_typed(obj)
        return kind + CHECKSUM_TAG, data + zlib.crc32(data).to_bytes(SIZE, "big")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value. Raises DamagedError when seal and bytes differ."""
        kind, raw = data
        if not kind.endswith(CHECKSUM_TAG):
            return self.inner.loads_typed(data)
        body, seal = raw[:-SIZE], raw[-SIZE:]
        if zlib.crc32(body).to_bytes(SIZE, "big") != seal:
            raise DamagedError(f"a stored {kind.removesuffix(CHECKSUM_TAG)} value does not match its checksum")
        return self.inner.loads_typed((kind.removesuffix(CHECKSUM_TAG), body))
