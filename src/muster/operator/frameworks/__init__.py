"""The rules of each kind of job: framework (the defaults), a module per framework, registry.

No module imports mpi_kubexec: MPI launchers mount it and run it, on Python 3.5 or newer.
"""
