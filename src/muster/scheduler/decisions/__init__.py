"""What to do about one gang: no await, no client, and the clock is an argument.

Start with `decide`. `shortage` and `preemption` handle gangs that do not fit, `bind_failures`,
`volume_provisioning` and `gang_deletion` their special cases; `reasons` has the words, `decision`
the data.
"""
