"""How the model types are built: one builder per type, in a module per kind of architecture."""
