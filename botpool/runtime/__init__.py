"""Running Botpool on a machine: supervisor, processes, embedded PostgreSQL, first start."""
