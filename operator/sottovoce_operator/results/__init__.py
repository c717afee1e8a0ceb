"""The results of a fleet: opened sums as tables, files and pages, and the check of a file's signatures."""
