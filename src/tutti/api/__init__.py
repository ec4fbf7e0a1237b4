"""JSON of version `tutti/v1`: its types, the routes that speak it, and the client."""
