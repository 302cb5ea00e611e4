"""Parallel text to batches of ids."""
