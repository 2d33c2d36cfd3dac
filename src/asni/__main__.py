"""`python -m asni`, which is also what torchrun starts."""

from asni.cli import main

main()
