"""A model to translations."""
