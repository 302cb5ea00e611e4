"""Translations to scores."""
