"""What a run knows when it is spoken to: its directives and data, and what parameters and values are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tuneloop.core.directive import Directive
from tuneloop.core.experiment import Value
from tuneloop.core.ledger import Limits

Settings = tuple[tuple[str, Value], ...]
LEAST = 4  # letters of a word that stands for a source


@dataclass(frozen=True)
class Known:
    """What words are held against.

    `sources`: data sets, and files as `dataset/file`. `parameters`, `values`: what they are called, singular, without
    hyphens, to a parameter's name, to what a value writes. `switches`: parameters that are on or off; `added`: those
    without which is with 0 of them. `now`: values of the best config. `asked`: the run waits for a yes or no that is no
    directive's. `left`: experiments and seconds, None: unlimited; `limits`: of the whole run.
    """

    directives: tuple[Directive, ...] = ()
    sources: tuple[str, ...] = ()
    experiment: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    switches: frozenset[str] = field(default=frozenset(), repr=False)
    added: frozenset[str] = field(default=frozenset(), repr=False)
    now: Mapping[str, Value] = field(default_factory=dict, repr=False)
    asked: bool = False
    experiments_left: int | None = None
    seconds_left: float | None = None
    limits: Limits = field(default_factory=Limits)
    experiments_limit: int | None = None

    @cached_property
    def worded(self) -> frozenset[str]:
        """Parameters whose values are words."""
        return frozenset(
            name for settings in self.values.values() for name, value in settings if isinstance(value, str)
        )

    @property
    def pending(self) -> Directive | None:
        """What waits for a yes, the newest."""
        return next((d for d in reversed(self.directives) if d.state == "pending"), None)

    def sources_called(self, phrase: str) -> tuple[str, ...]:
        """Sources by name, or by a part of the name; a data set before its files, () where none is called so."""
        found = [source for source in self.sources if called(source, phrase)]
        sets = [source for source in found if "/" not in source]
        return tuple(sets or found)


def called(source: str, phrase: str) -> bool:
    """Whether the phrase is the source's name, its file's name, or a word of it."""
    plain = words_of(source)
    file = words_of(source.rpartition("/")[2])
    stem = words_of(source.rpartition("/")[2].partition(".")[0])
    said = words_of(phrase)
    if said in (plain, file, stem):
        return True
    own = stem if "/" in source else plain
    return len(said) == 1 and len(said[0]) >= LEAST and said[0] in own and said[0] not in EVERYDAY


def words_of(name: str) -> list[str]:
    """Words of a name, singular."""
    apart = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    return [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith(("ss", "us", "is")) else w for w in apart]


EVERYDAY = frozenset(
    [
        "data",
        "dataset",
        "train",
        "training",
        "test",
        "file",
        "source",
        "json",
        "jsonl",
        "csv",
        "parquet",
        "text",
        "with",
        "main",
        "part",
        "parts",
        "full",
        "best",
        "last",
        "this",
        "that",
        "from",
        "only",
        "more",
        "time",
        "train",
        "rate",
        "model",
        "learning",
        "value",
        "values",
        "step",
        "steps",
    ]
)
