"""Jobs on a cluster: find, wait, explain, change, usage."""
