"""Entry point for `python -m sottovoce`, which runs the `sottovoce` command."""

from sottovoce.cli.main import main

main()
