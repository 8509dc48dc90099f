"""Programs that make parts of this repository: pages, schemas, tables."""
