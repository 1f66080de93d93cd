"""The command line: flags to request to use case to render. Nothing outside this room imports typer."""
