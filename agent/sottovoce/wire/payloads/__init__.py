"""One file a family of learners: its messages as bytes. Imported when the first such message is there."""
