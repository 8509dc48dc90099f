"""What pods answer to besides their verbs: streams to the node agent, eviction, usage."""
