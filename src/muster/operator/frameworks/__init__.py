"""What differs per kind of job: framework (the defaults), a module per framework, registry.

mpi_kubexec has no importers: MPI launchers mount it and run it, on Python 3.5 or newer.
"""
