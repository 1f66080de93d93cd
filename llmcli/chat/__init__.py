"""The conversation: prompt assembly, the streamed answer, what a person sees of it."""
