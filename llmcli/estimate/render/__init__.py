"""The answer of `estimate-kv` for people: pages for a terminal, Markdown, CSV, pictures."""
