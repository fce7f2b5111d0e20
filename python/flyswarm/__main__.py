"""`python -m flyswarm` is the program `flyswarm`."""

from flyswarm._program import main

main()
