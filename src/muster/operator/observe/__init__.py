"""What exists of a job: informers, own_writes (what they do not show yet), ports_in_use."""
