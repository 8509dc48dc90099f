"""Streams between clients and a pod on the node: logs, exec, attach, proxy."""
