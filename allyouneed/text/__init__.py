"""Strings to ids and back; nothing here imports torch."""
