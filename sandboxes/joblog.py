"""A job's log: keeps head and tail, cuts the middle and says so. Standard library only, as all of the supervisor."""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH105, PTH123, SIM105

from __future__ import annotations

import os


class Log:
    """A file that keeps its head and its tail: at most about `limit` bytes, and a line that says how much was cut."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, max(limit, 1024)
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115
        self.size, self.cut = os.fstat(self.file.fileno()).st_size, 0
        self.mark = 0

    def write(self, data: bytes) -> None:
        """Append; a full disk costs log lines, never the job."""
        try:
            self.size += self.file.write(data)
            if self.size > self.limit:
                self.compact()
        except OSError:
            self.cut += len(data)

    def compact(self) -> None:
        """Rewrite as head, mark and tail; readers see the old or the new file."""
        head, tail = self.limit // 2, self.limit // 4
        with open(self.path, "rb") as f:
            first = f.read(head)
            f.seek(max(self.size - tail, head))
            last = f.read()
        self.cut += self.size - head - len(last) - self.mark
        mark = b"\n[... %d bytes cut ...]\n" % self.cut
        self.mark = len(mark)
        part = self.path + ".part"
        with open(part, "wb") as f:
            f.write(first + mark + last)
        os.replace(part, self.path)
        self.file.close()
        self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        self.size = head + len(mark) + len(last)

    def close(self) -> None:
        """On disk before `exit.json` is; a full disk costs log lines, never the job."""
        try:
            os.fsync(self.file.fileno())
        except OSError:
            pass
        self.file.close()
