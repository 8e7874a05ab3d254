"""Drawings of the pages, as SVG; text in them is escaped as the document is written."""
