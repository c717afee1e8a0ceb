"""AdaD²P and ConstD²P (ICLR 2024 submission), which differ from ClipD²P, the device's default, in their thresholds."""
