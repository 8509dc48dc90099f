"""Models that pods export: find the folders, read them, publish them as ConfigMaps.

Reading order: model_files (what one file says), model_versions (one look at a directory), watcher.
"""
