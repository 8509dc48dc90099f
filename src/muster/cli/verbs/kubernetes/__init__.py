"""Verbs that install Muster on a Kubernetes cluster, and examine the installation."""
