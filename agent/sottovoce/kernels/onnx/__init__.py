"""Models as ONNX graphs: run by ONNX Runtime, which is imported when a device has such a model and not before."""
