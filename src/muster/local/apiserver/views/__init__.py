"""What readers get: selections, pages, watches, tables, discovery, OpenAPI."""
