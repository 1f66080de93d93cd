"""Durations to phases, rates, records and lines: pure. The request log keeps the records."""
