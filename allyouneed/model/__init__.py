"""Ids to logits: one file a section of the paper."""
