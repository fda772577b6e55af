"""How fast it is, measured in a checkout: `python -m benchmarks`, or `make bench`. One file a bench."""
