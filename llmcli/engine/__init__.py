"""The only room that imports torch, transformers and bitsandbytes."""
