"""Entry point of `python -m sottovoce`, which runs the command `sottovoce`."""

from sottovoce.cli.main import main

main()
