"""Gates between an agent's script and a training: the script, every record it made, and the micro-run."""
