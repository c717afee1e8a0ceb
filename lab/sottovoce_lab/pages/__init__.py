"""Reports as pages: one self-contained HTML file each, without network requests or scripts."""
