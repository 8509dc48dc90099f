"""Where pods could go: pure functions over the snapshot's arrays."""
