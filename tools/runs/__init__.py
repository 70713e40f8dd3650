"""A run from outside, by its folder alone: where it stands, what it brought, what it is told; no graph."""
