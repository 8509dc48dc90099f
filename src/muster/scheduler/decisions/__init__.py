"""What to do about one gang: no await, no client, and the clock is an argument.

Start with `gang_decision`. `unplaced_gang`, `preemption` and `starvation` handle gangs that do not
fit, `bind_failures`, `volume_provisioning` and `gang_deletion` their special cases; `reasons` has
the words, `decision` the data.
"""
