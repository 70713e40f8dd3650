"""Raw data: read, profiled, inspected."""
