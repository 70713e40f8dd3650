"""The facts of `tuneloop data inspect` by `datasets` and pandas, as a practised hand writes it; run in an engine that has both.

python inspecting_stock.py FILE CACHE RESULT
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import datasets
import pandas as pd

BOX = re.compile(r"\\boxed\{([^{}]*)\}")


def lengths(sizes: pd.Series) -> dict[str, float]:
    """Least, mean, percentiles, most."""
    low, median, high = sizes.quantile([0, 0.5, 0.99])
    return {
        "min": float(low),
        "mean": float(sizes.mean()),
        "p50": float(median),
        "p99": float(high),
        "max": float(sizes.max()),
    }


def column(values: pd.Series) -> dict[str, Any]:
    """Types, empty and different values, lengths, range."""
    there = values.dropna()
    if values.dtype == object and len(there) and not isinstance(there.iloc[0], str):
        lists = there.map(tuple)
        elements = there.explode()
        inner = {"distinct": int(elements.nunique()), "characters": lengths(elements.str.len())}
        sizes = there.map(len)
        return {
            "kinds": {"list": len(there)},
            "empty": int((sizes == 0).sum()) + len(values) - len(there),
            "distinct": int(lists.nunique()),
            "items": lengths(sizes),
            "elements": inner,
        }
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        span = {"low": float(there.min()), "high": float(there.max())}
        return {
            "kinds": {str(values.dtype): len(there)},
            "empty": len(values) - len(there),
            "distinct": int(there.nunique()),
            **span,
        }
    sizes = there.str.len()
    blank = there[sizes < 10].str.strip().eq("").sum()  # what is blank is short here: a gift to this side
    found: dict[str, Any] = {
        "kinds": {"text": len(there)},
        "empty": int(blank) + len(values) - len(there),
        "distinct": int(there.nunique()),
        "characters": lengths(sizes),
    }
    if sizes.max() <= 32:
        numbers = pd.to_numeric(there, errors="coerce")
        if not numbers.isna().any():
            found |= {"low": float(numbers.min()), "high": float(numbers.max())}
    return found


def reasoning(frame: pd.DataFrame) -> dict[str, float]:
    """Shares on a sample of a thousand rows."""
    some = frame.iloc[sorted(random.Random(1).sample(range(len(frame)), min(1000, len(frame))))]
    ends = some["solution"].fillna("").map(lambda text: (BOX.findall(text) or [None])[-1])
    worked = some["solution"].fillna("").str.split().str.len() > 8
    both = ends.notna() & worked
    return {
        "reasoned": float(worked.mean()),
        "readable": float(ends.notna().mean()),
        "agreeing": float((ends[both] == some["answer"][both]).mean()),
    }


def main() -> None:
    """All facts as JSON."""
    file, cache, result = sys.argv[1:]
    datasets.disable_progress_bars()
    rows = datasets.load_dataset("json", data_files=file, split="train", cache_dir=cache)
    frame = rows.flatten().to_pandas()
    lists = [name for name in frame.columns if frame[name].dtype == object]
    whole = frame.assign(**{name: frame[name].map(tuple) for name in lists}) if lists else frame
    found = {
        "rows": len(frame),
        "duplicates": int(whole.duplicated().sum()),
        "columns": {str(name): column(frame[name]) for name in frame.columns},
        "reasoning": reasoning(frame),
    }
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
