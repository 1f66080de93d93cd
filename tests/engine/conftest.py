"""Tokenizers of real models."""

import pytest
import real_tokenizers
from transformers import AutoTokenizer


@pytest.fixture(scope="session", params=[*real_tokenizers.NAMES, *real_tokenizers.MORE])
def real(request, tmp_path_factory):
    """The tokenizer of a real model, with its chat template where it has one."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("tokenizers") if cache else tmp_path_factory.mktemp("tokenizers")
    try:
        return AutoTokenizer.from_pretrained(real_tokenizers.directory(folder, request.param), local_files_only=True)
    except real_tokenizers.Unreachable as error:
        pytest.skip(f"{request.param} cannot be fetched: {str(error).strip().splitlines()[-1]}")
