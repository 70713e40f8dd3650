"""A data set in Parquet, one file a split."""

from tests.hub.making import parquet


def files() -> dict[str, bytes]:
    """Questions and answers."""
    rows = [{"question": f"What is {n} + {n % 7}?", "answer": str(n + n % 7)} for n in range(300)]
    card = "---\nlicense: mit\n---\n# Sums\n"
    return {
        "README.md": card.encode(),
        "data/train-00000-of-00001.parquet": parquet(rows[:200]),
        "data/test-00000-of-00001.parquet": parquet(rows[200:]),
    }
