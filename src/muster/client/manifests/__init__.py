"""Manifests: reading files, OpenShift templates, applying and creating objects."""
