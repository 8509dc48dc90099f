"""Models that pods export: find the folders, read them, publish them as ConfigMaps."""
