"""The entry point of `llmcli` and `python -m llmcli`."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the program; Ctrl-C before it is ready to be interrupted properly ends it in a word as well."""
    try:
        from llmcli.cli import app

        app.main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
