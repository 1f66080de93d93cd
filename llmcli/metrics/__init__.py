"""Durations to phases, rates, records and lines. Pure."""
