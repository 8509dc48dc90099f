"""The Python API, which `import muster` exports: jobs, clusters and errors as objects.

The functions are those of the commands: both build the same manifests and talk to the same
clusters, through `muster.client`.
"""
