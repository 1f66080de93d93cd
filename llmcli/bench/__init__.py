"""The measurement: plan, run, statistics."""
