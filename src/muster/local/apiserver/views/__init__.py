"""What readers get: lists, watch events, tables, discovery, OpenAPI, usage."""
