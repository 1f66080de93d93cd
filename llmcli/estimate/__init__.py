"""The sizing: architecture facts to layers to bytes. Pure, no torch."""
