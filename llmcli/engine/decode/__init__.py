"""Decode paths: the ways from one token to the next."""
