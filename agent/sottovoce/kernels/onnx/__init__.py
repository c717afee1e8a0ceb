"""Models as ONNX graphs. ONNX Runtime executes them, and is imported only if a device uses such a model."""
