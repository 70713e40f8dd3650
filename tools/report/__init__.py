"""What a run leaves for people and scripts: report.md with plots, the model card, and report.json, written last."""
