"""Calls of agents: brief, call, transcript, replay."""
