"""What stands beside the language model in a multimodal one: towers that see or hear, and what joins them to it."""
