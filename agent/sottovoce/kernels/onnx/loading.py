"""Load the configured graph, or raise one clear error if it cannot be trained on this machine."""

from collections.abc import Iterable, Sequence

from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.allowlist import Graph, allowed_graph, is_graph, stock_hashes
from sottovoce.kernels.onnx.kernel import OnnxKernel
from sottovoce.kernels.onnx.probe import probe_graph
from sottovoce.kernels.onnx.session import GraphSession


def graph_kernel(
    name: str, features: int, classes: int, graphs: Sequence[str], threads: int, *, other_models: Iterable[str] = ()
) -> OnnxKernel:
    """Return the kernel for a graph, after testing the graph on this machine. See sottovoce.kernels.kernel_named.

    Args:
        name: the name of a bundled graph, or the path of a file.
        features: the number of columns in the data.
        classes: the number of labels in the data.
        graphs: `sha256:HEX` for each file that may be loaded.
        threads: the number of threads that run the graph.
        other_models: the names of models without a graph, for error messages.
    """
    graph, chunk = load_probed_graph(name, graphs, threads, other_models)
    kernel = OnnxKernel(GraphSession(graph.model, graph.origin, threads), chunk)
    if (kernel.features, kernel.classes) != (features, classes):
        raise ConfigError(
            f"learner.model: {name} expects {kernel.features} features and {kernel.classes} classes; after "
            f"data.transform, the data has {features} and {classes}: choose another model, data or transform"
        )
    return kernel


def load_probed_graph(
    name: str, graphs: Sequence[str], threads: int, other_models: Iterable[str] = ()
) -> tuple[Graph, int]:
    """Load a graph and test it on this machine in a separate process, before its kernel is built.

    Returns:
        The graph, and the number of examples that one call may process.

    Raises:
        ConfigError: if no graph has this name, it may not be loaded, or ONNX Runtime cannot run it on this machine.
    """
    if not is_graph(name):
        raise ConfigError(
            f"no gradient-trained model is called {name!r}: choose one of "
            f"{', '.join([*other_models, *stock_hashes()])}, or a file that ends in .onnx"
        )
    graph = allowed_graph(name, graphs)
    return graph, probe_graph(graph, threads)
