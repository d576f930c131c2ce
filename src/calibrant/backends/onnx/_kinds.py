"""What a tensor of a model holds, as far as its graph says: logits or probabilities."""

from __future__ import annotations

from typing import Any

from calibrant.common.types import InputKind

# They move values, and change none.
_MOVES = {"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_LOGITS = {"Conv", "Gemm", "LogSoftmax"}  # nothing that these give are probabilities


def check_kind(graph: Any, name: str, kind: InputKind) -> None:
    """Refuse the output of a softmax where logits are read, and what is surely none for probs."""
    node = _origin(graph, name)
    if node is None:
        return
    softmax = _softmax_behind(graph, node)
    if kind == "logits" and softmax is not None:
        what = "output" if softmax is node else node.op_type
        raise ValueError(
            f"the calibrator reads logits, but {name!r} is the {what} of a {softmax.op_type}: give "
            f'that one\'s input, logits_output="{softmax.input[0]}", or fit with input="probs"'
        )
    if kind == "probs" and node.op_type in _LOGITS:
        raise ValueError(
            f"the calibrator reads probabilities, but {name!r} is the output of a {node.op_type}: "
            "give the output of the model's softmax as logits_output, or fit on the logits"
        )


def _softmax_behind(graph: Any, node: Any) -> Any | None:
    """The node that makes probabilities of logits, if ``node`` gives such: Softmax or LogSoftmax.

    Models trained on log-probabilities end in Exp(LogSoftmax(x)), or in Exp(Log(Softmax(x))).
    """
    if node.op_type == "Softmax":
        return node
    inner = _origin(graph, node.input[0]) if node.op_type == "Exp" else None
    if inner is not None and inner.op_type == "Log":
        inner = _origin(graph, inner.input[0])
        return inner if inner is not None and inner.op_type == "Softmax" else None
    return inner if inner is not None and inner.op_type == "LogSoftmax" else None


def _origin(graph: Any, name: str) -> Any | None:
    """The node whose values a tensor has; None for an input, a constant or a damaged graph."""
    makers = {output: node for node in graph.node for output in node.output}
    node = makers.pop(name, None)
    while node is not None and node.op_type in _MOVES and node.domain in ("", "ai.onnx"):
        node = makers.pop(node.input[0], None)  # popped: a loop ends, too
    return node
