"""Saving a wrapped model with its compiled graph, and loading it again."""
