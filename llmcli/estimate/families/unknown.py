"""x"""
def build_unknown(config, model_type):
    raise NotImplementedError(model_type)
