"""Raw data, read and measured: facts for whoever plans a recipe."""

from tuneloop.tools.profiling.profile import profile_dataset
from tuneloop.tools.profiling.reading import records, sources

__all__ = ["profile_dataset", "records", "sources"]
