"""`python -m queen` is the same as `queen`."""

from queen.cli import main

main()
