"""What benchmarks share: where results go, runs that are kept, CPU time."""
