"""Dataset plug-ins: one file each."""
