"""How each engine stores what the layers of a model keep: the same model takes different bytes in each."""
