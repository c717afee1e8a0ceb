"""Models as ONNX graphs, run by ONNX Runtime, which is imported only when a device has such a model."""
