"""Virtual time: against a real cluster and queueing libraries; exploration of moves."""
