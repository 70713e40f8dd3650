"""How people start it: one file a command, loaded by name."""
