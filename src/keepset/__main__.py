"""Runs the command line: ``python -m keepset``."""

from keepset.cli import main

main()
