"""Several services beside one cluster: one leads, the others stand by with all that it has decided."""
