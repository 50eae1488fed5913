"""Evidence about a slot's container: is it gone, or does it live? Reads Coolify, changes nothing
there."""
