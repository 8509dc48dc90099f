"""Pods: their spec, containers, resources and templates; pod groups and priority classes."""
