"""Secrets are blotted out wherever they stand; words are left."""

from __future__ import annotations

import pytest

from tuneloop.core.redaction import SecretRedactor, collect_secrets
from tuneloop.core.settings import Settings


def test_values_and_what_looks_like_one() -> None:
    secrets = SecretRedactor(["canary-0123456789", "canary-0123", "short", ""])
    assert secrets.blot("a canary-0123456789 b") == "a [secret] b"
    assert secrets.blot("canary-0123 short") == "[secret] short"
    assert secrets.blot({"canary-0123": ["x canary-0123", 1, None, True]}) == {
        "[secret]": ["x [secret]", 1, None, True]
    }
    assert secrets.blot("key sk-proj-abcdefghijklmnop1234, hf_" + "a" * 24) == "key [secret], [secret]"
    assert (
        SecretRedactor([]).blot("a risk-free task-oriented set, sk-learn") == "a risk-free task-oriented set, sk-learn"
    )


def test_every_key_of_the_settings_and_of_the_environment() -> None:
    settings = Settings(OPENAI_API_KEY="openai-key", HF_TOKEN="hub-token-1", TUNELOOP_MCP_TOKEN="server-token")
    settings = settings.model_copy(update={"checkpoint_url": "postgresql://me:store-pass@h/db"})
    environment = {"ANTHROPIC_API_KEY": "anthropic-key", "MY_PASSWORD": "opensesame", "PATH": "/usr/bin:/bin"}
    said = "openai-key hub-token-1 server-token anthropic-key opensesame store-pass /usr/bin:/bin"
    assert collect_secrets(settings, environment).blot(said) == f"{'[secret] ' * 6}/usr/bin:/bin"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:sec/ret-12@h/db", "sec/ret-12"),
        ("postgresql://u:se@cret-12@h/db", "se@cret-12"),
        ("postgresql://u:secret-12@[::1/db", "secret-12"),
        ("postgresql://u:secret%2F12@h/db?application_name=a@b", "secret/12 secret%2F12"),
        ("postgresql://h/db?user=u&password=secret-12&sslmode=require", "secret-12"),
        ("postgresql://h/db", ""),
    ],
)
def test_passwords_of_addresses_however_they_are_written(url: str, said: str) -> None:
    settings = Settings().model_copy(update={"team_url": url})
    assert collect_secrets(settings, {}).blot(said).split() == ["[secret]"] * len(said.split())


def test_half_a_surrogate_pair_can_be_written_down_afterwards() -> None:
    assert SecretRedactor([]).blot({"said": ["\ud83d!", "😀"]}) == {"said": ["?!", "😀"]}
