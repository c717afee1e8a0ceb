"""Building, reading and exporting models as ONNX graphs: work for a workstation; needs the extra `models`."""
