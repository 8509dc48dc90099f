"""What the operator sees: informers, its own writes not yet seen by them, host ports in use."""
