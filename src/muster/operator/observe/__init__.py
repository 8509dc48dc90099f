"""The objects of jobs: informers, own_writes (writes they do not show yet), ports_in_use."""
