"""What differs per kind of job: framework (the defaults), a module per framework, registry.

mpi_kubexec has no importers: it is mounted into MPI launchers, and runs there on Python 3.5 or newer.
"""
