"""Programs that generate parts of this repository: pages, schemas, tables."""
