"""Request bodies, parameters and responses, in camelCase."""
