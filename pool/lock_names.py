"""The names of the advisory locks, in one place; see core.locks."""

GROW_POOL = "grow the pool of {platform}"
DRAIN_QUEUE = "drain the queue of {platform}"
BUILD_PLACES = "build places of server {server}"
PLACE_SLOT = "place a slot on a server"
ORDER_SERVERS = "order servers"
PULL_IMAGE = "pull {image} on server {server}"
