"""Pre-pulls in Coolify, and its lists of images. Who may pull is decided in pool.images."""
