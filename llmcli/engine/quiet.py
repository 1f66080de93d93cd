"""transformers' own progress bars and messages: off the screen, into the debug log."""

from transformers.utils import logging as transformers_logging


def quiet() -> None:
    """Hand transformers' messages to the root logger and hide its progress bars."""
    transformers_logging.disable_progress_bar()
    transformers_logging.disable_default_handler()
    transformers_logging.enable_propagation()
