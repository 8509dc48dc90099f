"""Server-side apply and the owners of fields: field sets, types of fields, merge, managers."""
