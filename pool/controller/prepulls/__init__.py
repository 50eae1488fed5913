"""Pre-pulls and Coolify's lists of images: the calls to Coolify. pool.images decides who may pull."""
