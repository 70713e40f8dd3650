"""What is told elsewhere about a run, in the background: OpenTelemetry spans, notifications, experiment trackers."""
