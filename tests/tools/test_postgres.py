"""Addresses of Postgres servers: named without passwords, refused without repeating them."""

from __future__ import annotations

import traceback

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.postgres import public_address

pytest.importorskip("psycopg")


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("postgresql://u:secret@h/db", "postgresql://h:5432/db"),
        ("postgresql://u:se%2Fcr%40et@h:77/db", "postgresql://h:77/db"),
        ("postgres://u@[::1]:5433/db?password=secret", "postgresql://::1:5433/db"),
        ("postgresql://a:1,b:2/db", "postgresql://a,b:1,2/db"),
        ("postgresql://%2Fvar%2Frun/db", "postgresql:///var/run:5432/db"),
        ("postgresql://u:1?secret@h/db", "postgresql://h:5432/db"),
        ("postgresql://u:secret@h", "postgresql://h:5432/u"),
    ],
)
def test_named_without_password(url: str, public: str) -> None:
    assert public_address(url, "V") == public


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:se/cret@h/db",
        "postgresql://u:12/secret@h/db",
        "postgresql://u:se@cret@h/db",
        "postgresql://u:secret%zz@h/db",
        "postgresql://u:secret%00@h/db",
        "postgresql://u:secret@[::1/db",
        "postgresql://h/db?secret=1",
        "host/db?password=secret",
        "u:secret@h",
    ],
)
def test_nonsense_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^V.*right is postgresql://user@host:5432/database") as refused:
        public_address(url, "V")
    said = "".join(traceback.format_exception(refused.value, chain=True)).partition("InvalidRequestError: ")[2]
    assert not {"cret", "secret"} & set(said.replace("/", " ").replace("@", " ").split())
    assert "cret" not in str(refused.value)
