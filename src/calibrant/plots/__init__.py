"""Diagrams drawn by matplotlib."""
