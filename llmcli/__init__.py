"""Talk to a language model on your own machine and see where the time goes."""

__version__ = "0.1.0"
