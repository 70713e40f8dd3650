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
    """Another serializer's bytes and their CRC-32; what has none was not written by us."""

    def __init__(self, inner: SerializerProtocol) -> None:
        self.inner = inner

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Type and bytes, sealed."""
        kind, data = self.inner.dumps_typed(obj)
        return kind + CHECKSUM_TAG, data + zlib.crc32(data).to_bytes(SIZE, "big")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value. Raises DamagedError when seal and bytes differ, or the type is none that we write."""
        kind, raw = data
        if not isinstance(kind, str) or not kind.endswith(CHECKSUM_TAG) or not isinstance(raw, bytes):
            raise DamagedError(f"a stored value of the type {kind!r} is none of ours")
        body, seal = raw[:-SIZE], raw[-SIZE:]
        if zlib.crc32(body).to_bytes(SIZE, "big") != seal:
            raise DamagedError(f"a stored {kind.removesuffix(CHECKSUM_TAG)} value does not match its checksum")
        try:
            return self.inner.loads_typed((kind.removesuffix(CHECKSUM_TAG), body))
        except (NotImplementedError, AttributeError, LookupError, TypeError, RecursionError) as e:
            raise DamagedError(f"a stored {kind.removesuffix(CHECKSUM_TAG)} value cannot be read: {e}") from e
