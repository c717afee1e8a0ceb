"""Generated from proto/sottovoce/v1 by proto/generate; never edited by hand."""
