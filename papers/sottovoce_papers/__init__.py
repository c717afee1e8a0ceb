"""Learners from papers, one folder a paper, found through entry points. They import `sottovoce.plugin` only."""
