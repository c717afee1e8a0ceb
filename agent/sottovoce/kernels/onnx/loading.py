"""Loading of the configured graph. If it cannot be trained on this machine, the user gets one clear error."""

from collections.abc import Iterable, Sequence

from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.allowed import Graph, allowed_graph, is_graph, stock_hashes
from sottovoce.kernels.onnx.kernel import OnnxKernel
from sottovoce.kernels.onnx.probe import probe_graph
from sottovoce.kernels.onnx.session import GraphSession


def graph_kernel(
    name: str, features: int, classes: int, graphs: Sequence[str], threads: int, *, others: Iterable[str] = ()
) -> OnnxKernel:
    """Return the kernel of a graph, after testing the graph on this machine. See sottovoce.kernels.kernel_named.

    Args:
        name: name of a graph in the package, or the path of a file.
        features: number of columns in the data.
        classes: number of labels in the data.
        graphs: `sha256:HEX` of each file that may be loaded.
        threads: number of threads that run the graph.
        others: names of models that have no graph, for error messages.
    """
    graph, chunk = load_probed_graph(name, graphs, threads, others)
    kernel = OnnxKernel(GraphSession(graph.model, graph.origin, threads), chunk)
    if (kernel.features, kernel.classes) != (features, classes):
        raise ConfigError(
            f"learner.model: {name} expects {kernel.features} features and {kernel.classes} classes; after "
            f"data.transform, the data has {features} and {classes}: choose another model, data or transform"
        )
    return kernel


def load_probed_graph(name: str, graphs: Sequence[str], threads: int, others: Iterable[str] = ()) -> tuple[Graph, int]:
    """Load a graph and test it on this machine in a separate process. Building its kernel later needs no other process.

    Returns:
        The graph, and the number of examples that one call of it may process.

    Raises:
        ConfigError: if no graph has this name, if it may not be loaded, or if ONNX Runtime cannot run it here.
    """
    if not is_graph(name):
        raise ConfigError(
            f"no gradient-trained model is called {name!r}: choose one of "
            f"{', '.join([*others, *stock_hashes()])}, or a file that ends in .onnx"
        )
    graph = allowed_graph(name, graphs)
    return graph, probe_graph(graph, threads)
