"""One hour of faults of every kind on one local cluster: the faults, and what must survive them."""
