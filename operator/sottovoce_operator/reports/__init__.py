"""Reports on a device for those who answer for it to auditors."""
