"""Build, read and export models as ONNX graphs. Meant for workstations, and requires the extra `models`."""
