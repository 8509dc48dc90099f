"""Manifests of the objects that a job owns: pods, services, the gang's group."""
