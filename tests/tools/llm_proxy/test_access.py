"""Who may ask what follows from the settings; a limit on money without a price is refused before anything costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.budget import Limits
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, LimitReachedError
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools.llm_proxy.access import PUBLIC, data_access, judge_access, upstreams, with_served_endpoint

KEY = "sk-canary"


def given(**more: Any) -> Settings:
    return Settings(**{"OPENAI_API_KEY": KEY, "FT_STRONG_MODELS": "a,b", "FT_WEAK_MODELS": '["b", "c"]', **more})


def test_models_workers_and_limits() -> None:
    access = data_access(given(FT_API_MAX_WORKERS="3", TUNELOOP_API_JOB_LIMITS='{"tokens": 5}'))
    assert access is not None
    assert (access.models, access.workers) == (("a", "b", "c"), 3)
    assert (access.job.tokens, access.job.requests, access.run.tokens) == (5, None, None)


@pytest.mark.parametrize(
    "missing", [{"FT_STRONG_MODELS": "", "FT_WEAK_MODELS": ""}, {"OPENAI_API_KEY": None, "OPENAI_API_BASE": None}]
)
def test_no_access_without_models_or_provider(missing: dict[str, Any]) -> None:
    assert data_access(given(**missing)) is None


def test_provider_without_key() -> None:
    settings = given(OPENAI_API_KEY=None, OPENAI_API_BASE="http://localhost:8000/v1/")
    assert data_access(settings) is not None
    assert upstreams(settings)["data"].base == "http://localhost:8000/v1"


def test_money_limit_needs_prices() -> None:
    limit = {"TUNELOOP_API_RUN_LIMITS": '{"money": 3}'}
    with pytest.raises(InvalidRequestError, match=r"no price for b, c; right is TUNELOOP_API_PRICES="):
        data_access(given(**limit, TUNELOOP_API_PRICES='{"a": [1, 2]}'))
    access = data_access(given(**limit, TUNELOOP_API_PRICES=json.dumps({m: [1, 2] for m in "abc"})))
    assert access is not None
    assert access.cost("a", 1_000_000, 500_000) == 2.0
    assert access.cost("unknown", 1, 1) is None


def test_run_limits_need_prices() -> None:
    access = data_access(given(TUNELOOP_API_PRICES=json.dumps({m: [1, 2] for m in "ab"})))
    assert access is not None
    with pytest.raises(
        InfrastructureError, match="money is limited, and there is no price for c; right is TUNELOOP_API_PRICES="
    ):
        access.within(Limits(money=3))
    assert access.within(Limits(tokens=5)).run.tokens == 5
    with pytest.raises(LimitReachedError, match="a, b, c cannot be asked"):
        access.within(Limits(tokens=0))


@pytest.mark.parametrize("wrong", ['{"requests": 0}', '{"euros": 3}', "many"])
def test_invalid_limits(monkeypatch: pytest.MonkeyPatch, wrong: str, tmp_path: Path) -> None:
    monkeypatch.setenv("TUNELOOP_API_JOB_LIMITS", wrong)
    with pytest.raises(InvalidRequestError, match="TUNELOOP_API_JOB_LIMITS"):
        load_settings(tmp_path / ".env")


def test_judge_provider() -> None:
    assert judge_access(given()) is None
    access = judge_access(given(FT_JUDGE_MODEL="j"))
    assert access is not None
    assert (access.models, access.purpose) == (("j",), "judge")
    assert upstreams(given(FT_JUDGE_MODEL="j"))["judge"].base == PUBLIC
    own = upstreams(given(FT_JUDGE_MODEL="j", FT_JUDGE_API_KEY="other", FT_JUDGE_API_BASE="http://judge/v1"))
    assert (own["judge"].key, own["judge"].base, own["data"].key) == ("other", "http://judge/v1", KEY)


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("http://served:8000/v1", True),
        ("HTTP://SERVED:8000/other", True),
        ("http://served:8001/v1", False),
        ("http://served/v1", False),
        ("https://served:8000/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("http://x@served:8000/v1", False),
        ("http://elsewhere\\@served:8000/v1", False),
        ("http://served:8000.elsewhere/v1", False),
        ("http://served.elsewhere:8000/v1", False),
    ],
)
def test_a_key_goes_to_the_endpoint_that_it_was_set_for(base: str, own: bool) -> None:
    common = given(OPENAI_API_BASE="http://served:8000/v1")
    assert upstreams(with_served_endpoint(common, base))["served"].key == (KEY if own else "")
    elsewhere = given(TUNELOOP_EVAL_API_KEY="other", TUNELOOP_EVAL_API_BASE="http://served:8000/v1")
    asked = upstreams(with_served_endpoint(elsewhere, base))
    assert asked["served"].key == ("other" if own else "")
    assert asked["data"].key == KEY, "the others keep theirs"


def test_the_common_key_does_not_follow_to_the_judge() -> None:
    judge = given(FT_JUDGE_MODEL="j", FT_JUDGE_API_BASE="http://judge/v1")
    assert upstreams(judge)["judge"].key == ""
    assert upstreams(given(FT_JUDGE_MODEL="j", FT_JUDGE_API_BASE=f"{PUBLIC}/"))["judge"].key == KEY


def test_settings_hide_the_key() -> None:
    settings = given(FT_JUDGE_API_KEY=KEY)
    assert KEY not in f"{settings!r} {settings} {settings.model_dump_json()} {upstreams(settings)}"
