"""Textual style sheets, shipped as package data and imported as ``meshtui.styles``."""
