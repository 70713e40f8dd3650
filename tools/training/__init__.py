"""Trainings: launch, smoke run, monitor, result, forecast."""
