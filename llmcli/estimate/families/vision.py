"""x"""
def towers_of(config, model_type, hidden):
    return None
