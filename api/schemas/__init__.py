"""What goes over the wire: request bodies, parameters and answers, in camelCase."""
