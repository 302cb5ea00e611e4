"""Translations over HTTP: LibreTranslate's endpoints, our own, and a page."""
