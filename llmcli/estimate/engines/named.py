"""The engines by name."""

from collections.abc import Mapping

from llmcli.estimate.engines.llama_cpp import LLAMA_CPP
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.engines.vllm import VLLM

ENGINES: Mapping[str, Engine] = {rules.name: rules for rules in (TRANSFORMERS, LLAMA_CPP, VLLM)}
