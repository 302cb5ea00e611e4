"""`python -m allyouneed` is the command."""

from allyouneed.cli.main import main

main()
