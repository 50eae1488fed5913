"""How much of a request is read."""

LARGEST_HEAD = 65_536
LONGEST_REQUEST_LINE = 4_094
MOST_FIELDS = 50  # of the head
LARGEST_BODY = 1_000_000  # as DATA_UPLOAD_MAX_MEMORY_SIZE
# Of a body in chunks, besides its content: sizes, extensions and trailers. So many bytes, and a
# share of the content: each chunk costs time in the loop that serves all clients, and clients and
# proxies that have much to send use chunks of kilobytes.
LARGEST_OVERHEAD = 20_000
CONTENT_PER_OVERHEAD = 64
LONGEST_CHUNK_LINE = 1_000
