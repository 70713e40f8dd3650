"""The twelve nodes, one file each: every one finds its artifact finished, or makes it."""
