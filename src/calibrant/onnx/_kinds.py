"""What a tensor of a model holds, as far as its graph says: logits or probabilities."""

from __future__ import annotations

from typing import Any

from calibrant._types import InputKind

# They move values, and change none.
_MOVES = {"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_LOGITS = {"Conv", "Gemm", "LogSoftmax"}  # nothing that these give are probabilities


def check_kind(graph: Any, name: str, kind: InputKind) -> None:
    """Refuse the output of a softmax where logits are read, and what is surely none for probs."""
    node = _origin(graph, name)
    if node is None:
        return
    if kind == "logits" and node.op_type == "Softmax":
        raise ValueError(
            f"the calibrator reads logits, but {name!r} is the output of a Softmax: give that "
            f'one\'s input, logits_output="{node.input[0]}", or fit with input="probs"'
        )
    if kind == "probs" and node.op_type in _LOGITS:
        raise ValueError(
            f"the calibrator reads probabilities, but {name!r} is the output of a {node.op_type}: "
            "give the output of the model's softmax as logits_output, or fit on the logits"
        )


def _origin(graph: Any, name: str) -> Any | None:
    """The node whose values a tensor has; None for an input, a constant or a damaged graph."""
    makers = {output: node for node in graph.node for output in node.output}
    node = makers.pop(name, None)
    while node is not None and node.op_type in _MOVES and node.domain in ("", "ai.onnx"):
        node = makers.pop(node.input[0], None)  # popped: a loop ends, too
    return node
