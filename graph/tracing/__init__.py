"""OpenTelemetry spans of a run."""
