"""Reports as pages: one HTML file each, with everything in it, that asks nothing of any network and runs no script."""
