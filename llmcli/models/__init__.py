"""The registry and the files behind it: sources, download, integrity, paths. No torch."""
