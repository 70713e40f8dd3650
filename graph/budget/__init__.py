"""What a run may spend, and what happens when a limit is reached."""
