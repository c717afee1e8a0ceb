"""Build, read and export models as ONNX graphs; intended for a workstation and requires the extra `models`."""
