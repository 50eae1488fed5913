"""How much of a request is read."""

LARGEST_HEAD = 65_536
MOST_FIELDS = 50  # of the head
LARGEST_BODY = 1_000_000  # as DATA_UPLOAD_MAX_MEMORY_SIZE
# Of a body in chunks, besides its content: sizes, extensions and trailers.
LARGEST_OVERHEAD = 1_000_000
LONGEST_CHUNK_LINE = 1_000
