"""What raw data hold, read once from end to end: rows, broken lines, columns, lengths, duplicates, quality of reasoning."""
