"""Durable files, SQLite schemas and migrations, and a count of the bytes written per day."""
