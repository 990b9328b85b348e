"""Texts of any size to read: files by windows, search, patches, folding JSON. Draws nothing, writes nothing."""
