"""One shared model that the devices write in turn."""
