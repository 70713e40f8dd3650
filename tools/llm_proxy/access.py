"""Which models a job may ask, how much, and at what price; from the settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from tuneloop.core.budget import Limits, LlmQuota
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, LimitReachedError
from tuneloop.core.prices import Price, find_price
from tuneloop.core.setting_values import add_api_version
from tuneloop.core.settings import Settings

PUBLIC = "https://api.openai.com/v1"
NO_KEY = "none"  # an empty one would let `.env` name another
Purpose = Literal["data", "judge", "served"]
N = TypeVar("N", int, float)


class Access(BaseModel):
    """What one job may do through its endpoint."""

    model_config = ConfigDict(frozen=True)

    purpose: Purpose
    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    workers: int = Field(gt=0, description="concurrent requests")
    job: LlmQuota = LlmQuota()
    run: LlmQuota = LlmQuota()
    prices: dict[str, Price] = Field({}, description="of the models whose price is known")

    @property
    def models(self) -> tuple[str, ...]:
        """All models, each once."""
        return tuple(dict.fromkeys((*self.strong, *self.weak)))

    def cost(self, model: str, tokens_in: int, tokens_out: int, cached: int = 0) -> float | None:
        """Cost in USD; None: the price is unknown."""
        price = self.prices.get(model)
        return None if price is None else price.cost(tokens_in, tokens_out, cached)

    def within(self, limits: Limits) -> Access:
        """The same access, with the run's allowance reduced to `limits`.

        Raises:
            LimitReachedError: The limits allow nothing.
            InfrastructureError: Money is limited, and a model has no known price.
        """
        if 0 in (limits.tokens, limits.money):
            raise LimitReachedError(f"{', '.join(self.models)} cannot be asked: what the run may spend was taken back")
        unknown = [model for model in self.models if model not in self.prices]
        if limits.money is not None and unknown:
            raise InfrastructureError(f"money is limited, and there is {missing(unknown)}")
        both = {"tokens": least(self.run.tokens, limits.tokens), "money": least(self.run.money, limits.money)}
        return self.model_copy(update={"run": self.run.model_copy(update=both)})


class EndpointConfig(BaseModel):
    """`endpoint.json`: the job behind an endpoint, and its access. The token is valid at this endpoint only."""

    model_config = ConfigDict(frozen=True)

    token: str
    jobs: Path
    name: str
    access: Access


class Upstream(BaseModel):
    """The provider's address; `key` never leaves the orchestrator and the proxy."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    base: str
    key: str = Field(repr=False)


def data_access(settings: Settings) -> Access | None:
    """The access of data scripts; None without models or without a provider. Raises InvalidRequestError."""
    named = settings.strong_models or settings.weak_models
    if not named or not (settings.api_key or settings.api_base):
        return None
    return _checked(
        Access(
            purpose="data",
            strong=settings.strong_models,
            weak=settings.weak_models,
            workers=settings.api_workers,
            job=settings.api_job_limits,
            run=settings.api_run_limits,
        ),
        settings,
    )


def judge_access(settings: Settings) -> Access | None:
    """The access of an evaluation's judge; None without a judge or without a provider. Raises InvalidRequestError."""
    upstream = upstreams(settings)["judge"]
    if not settings.judge_model or not (upstream.key or settings.judge_api_base or settings.api_base):
        return None
    return _checked(
        Access(
            purpose="judge",
            strong=(settings.judge_model,),
            workers=settings.api_workers,
            job=settings.api_job_limits,
            run=settings.api_run_limits,
        ),
        settings,
    )


def served_access(settings: Settings, model: str) -> Access:
    """The access of an evaluation of the served model `model`. Raises InvalidRequestError."""
    return _checked(
        Access(
            purpose="served",
            strong=(model,),
            workers=settings.api_workers,
            job=settings.api_job_limits,
            run=settings.api_run_limits,
        ),
        settings,
    )


def upstreams(settings: Settings) -> dict[Purpose, Upstream]:
    """Address and key for each purpose; those of the judge or the served model take precedence over the common ones."""
    own: dict[Purpose, tuple[str | None, SecretStr | None]] = {
        "data": (None, None),
        "judge": (settings.judge_api_base, settings.judge_api_key),
        "served": (settings.eval_api_base, settings.eval_api_key),
    }
    return {purpose: _upstream(settings, *given) for purpose, given in own.items()}


def _upstream(settings: Settings, base: str | None, key: SecretStr | None) -> Upstream:
    """The common key goes to the common endpoint alone, wherever another one is asked."""
    common = settings.api_base or PUBLIC
    found = key or (settings.api_key if is_same_endpoint(base or common, common) else None)
    return Upstream(base=add_api_version(base or common), key=found.get_secret_value() if found else "")


def with_served_endpoint(settings: Settings, base: str) -> Settings:
    """Settings under which the served model at `base` is asked; a key that was set for another endpoint is left out."""
    own = is_same_endpoint(base, settings.eval_api_base or settings.api_base or PUBLIC)
    keys = {} if own else {"eval_api_key": None}
    return settings.model_copy(update={"eval_api_base": base, **keys})


def endpoint_environment(settings: Settings, base: str) -> dict[str, str]:
    """Variables of a process that asks its models at `base`: a key that was set for another endpoint does not go there."""
    if is_same_endpoint(base, settings.api_base or PUBLIC):
        return {"OPENAI_API_BASE": base}
    follow = {
        "OPENAI_API_KEY": True,
        "FT_JUDGE_API_KEY": settings.judge_api_key and not settings.judge_api_base,
        "TUNELOOP_EVAL_API_KEY": settings.eval_api_key and not settings.eval_api_base,
    }
    return {"OPENAI_API_BASE": base, **{name: NO_KEY for name, moves in follow.items() if moves}}


def is_same_endpoint(one: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port. What can be read in two ways is the same as nothing else."""
    found = [endpoint_of(address) for address in (one, other)]
    return one == other or (None not in found and found[0] == found[1])


def endpoint_of(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for an address that clients may understand in different ways."""
    try:
        found = urlsplit(address)
        port = found.port or {"http": 80, "https": 443}.get(found.scheme, 0)
    except ValueError:
        return None
    odd = set("@\\") & set(found.netloc) or not address.isascii() or not address.isprintable() or " " in address
    return None if odd or not found.hostname else (found.scheme, found.hostname, port)


def _checked(access: Access, settings: Settings) -> Access:
    """Add known prices; a limit on money needs the price of every model. Raises InvalidRequestError."""
    limited = access.job.money is not None or access.run.money is not None
    unknown = unpriced(access.models, settings)
    if limited and unknown:
        raise InvalidRequestError(f'there is a limit on money, and {missing(unknown)}, or no "money" in the limits')
    known = {model: price for model in access.models if (price := find_price(model, settings.api_prices))}
    return access.model_copy(update={"prices": known})


def unpriced(models: Iterable[str], settings: Settings) -> list[str]:
    """The models without a known price."""
    return [model for model in models if find_price(model, settings.api_prices) is None]


def missing(models: Sequence[str]) -> str:
    """How to set the missing prices."""
    return (
        f"no price for {', '.join(models)}; right is "
        f'TUNELOOP_API_PRICES={{"{models[0]}": [USD for a million tokens in, out]}}'
    )


def least(one: N | None, other: N | None) -> N | None:
    """The smaller limit; None: unlimited."""
    return min((limit for limit in (one, other) if limit is not None), default=None)
