"""The engines by name."""

from collections.abc import Mapping

from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.engines.transformers import TRANSFORMERS

ENGINES: Mapping[str, Engine] = {rules.name: rules for rules in (TRANSFORMERS,)}
