"""Every model type with latent attention, against the model and the cache that transformers builds from its config."""

import pytest
from oracle import build, check_cache, check_parameters, facts_of
from tiny_latent import DENSE, INDEXED, PLAIN, TYPES, tiny_latent
from transformers import AutoModelForCausalLM, Mistral4Config, Mistral4ForCausalLM

# transformers lists it with the models for images, beside which it stands, and not with the language models
AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)

EACH_TYPE = pytest.mark.parametrize("model_type", TYPES)
VARIANTS = {
    "as it is": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@EACH_TYPE
def test_parameters_are_those_of_the_model(model_type, changes):
    check_parameters(tiny_latent(model_type, **changes))


@EACH_TYPE
def test_kv_bytes_are_those_of_the_cache(model_type):
    check_cache(tiny_latent(model_type), lengths=(1, 7, 8, 9, 100))
