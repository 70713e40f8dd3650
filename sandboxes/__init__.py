"""Where jobs run: the only folder that starts processes."""
