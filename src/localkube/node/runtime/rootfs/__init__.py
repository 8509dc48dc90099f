"""The file system of a container.

Reading order: plan (the rules), path_tree (the paths that differ from the host), steps (how to
build them), hidden_directories.
"""
