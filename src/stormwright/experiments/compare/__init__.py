"""Several schedulers on one problem: run, tabled, reported."""
