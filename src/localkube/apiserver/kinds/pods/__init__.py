"""Pods: their spec, containers, resources and templates; groups, priority and runtime classes."""
