"""`python -m llmcli`."""

from llmcli.cli.app import main

main()
