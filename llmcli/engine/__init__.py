"""The only room that imports torch, transformers and bitsandbytes."""

import os

# tqdm reads this when it is imported, which importing transformers does: its bars would run through our own.
os.environ.setdefault("TQDM_DISABLE", "1")
