"""Decode steps compiled ahead of time: what is compiled, where it is kept, and how it gets there."""
