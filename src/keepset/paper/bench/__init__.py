"""What things cost: labelling, routers, pruning, memory. Timings depend on the machine; compare within one run."""
