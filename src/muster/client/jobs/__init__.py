"""Jobs on a cluster: find, follow logs, wait, explain, change, usage."""
