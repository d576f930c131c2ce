"""From a model and a data loader to a TemperatureProfile, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.backends.torch._modules import logits_of
from calibrant.calibrators.profile.temperature_profile import DEFAULT_TOP_K, TemperatureProfile
from calibrant.common.progress import reporter
from calibrant.common.types import Progress

Split = Callable[[Any], tuple[Any, Tensor]]  # batch -> what the model takes, labels
IGNORE_INDEX = -100  # PyTorch's own


def collect_logits(
    model: nn.Module | Callable[..., Any],
    dataloader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    ignore_index: int = IGNORE_INDEX,
    progress: Progress = True,
    max_rows: int | None = None,
    top_k: int = DEFAULT_TOP_K,
    scale: float = 1.0,
    split: Split | None = None,
    logits: Callable[[Any], Tensor] | None = None,
    shift: bool = False,
) -> TemperatureProfile:
    """Build the profile of a model's logits, batch by batch.

    The logits of a batch are dropped before the next one comes.

    Parameters
    ----------
    model : torch.nn.Module or callable
        Gives logits (.., classes). It runs in evaluation mode without gradients; the mode of each
        of its modules is restored.
    dataloader : iterable of batches
        Batches: pairs (inputs, labels), or mappings with a key ``labels`` whose other entries are
        the model's keyword arguments. Labels have the shape of the logits without the classes, so
        (batch,) or (batch, length).
    device : torch.device or str, optional
        Where the batches go; None is where the model's first parameter is.
    ignore_index : int, default -100
        Rows with this label are left out.
    progress : bool, default True
        Show a bar on standard error when it takes more than a second.
    max_rows : int, optional
        Stop when so many rows are collected.
    top_k : int, default 10
        How many of the largest logits the profile keeps.
    scale : float, default 1
        The size of the logits, see ``TemperatureProfile``.
    split : callable, optional
        A function from a batch to (inputs, labels), for batches of another form. Inputs that are a
        mapping become keyword arguments, a tuple positional ones.
    logits : callable, optional
        A function from the model's output to its logits, where they are not the output itself or
        its ``logits``.
    shift : bool, default False
        True where position i predicts the label of position i + 1 (language models).

    Returns
    -------
    TemperatureProfile
        The profile of all rows.

    Raises
    ------
    ValueError
        Where labels and logits do not belong together (the message names the batch), or no rows
        were collected.
    TypeError
        Where a batch or the model's output has another form.

    Examples
    --------
    >>> batches = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(5)]
    >>> collect_logits(nn.Linear(4, 3), batches)
    TemperatureProfile(40 rows, 3 classes, top_k=10, scale=1)
    """
    if max_rows is not None and max_rows < 1:
        raise ValueError(f"max_rows must be at least 1, got {max_rows}")
    if device is None and isinstance(model, nn.Module):
        first = next(model.parameters(), None)
        device = None if first is None else first.device
    profile = TemperatureProfile(top_k=top_k, scale=scale)
    room = float("inf") if max_rows is None else max_rows
    total = len(dataloader) if isinstance(dataloader, Sized) else None
    take = logits_of if logits is None else logits
    with _evaluating(model), reporter("collecting logits", progress) as report:
        for number, batch in enumerate(dataloader):
            inputs, labels = _moved((split or split_batch)(batch), device)
            if isinstance(inputs, Mapping):
                outputs = take(model(**inputs))
            else:
                outputs = take(model(*inputs) if isinstance(inputs, tuple) else model(inputs))
            try:
                _add(profile, *_aligned(outputs, labels, shift), ignore_index, room)
            except ValueError as error:
                error.add_note(f"in batch {number} of the data loader")
                raise
            del outputs  # before the next ones come
            report(number + 1, number + 2 if total is None else total)
            if len(profile) >= room:
                break
    if not len(profile):
        raise ValueError(f"no rows were collected: every label is {ignore_index}, or no batch came")
    return profile


def split_batch(batch: Any) -> tuple[Any, Tensor]:
    """Inputs and labels of a pair, or of a mapping with the key ``labels``."""
    if isinstance(batch, Mapping) and "labels" in batch:
        return {key: value for key, value in batch.items() if key != "labels"}, batch["labels"]
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    kind = f"{sorted(batch)}" if isinstance(batch, Mapping) else type(batch).__name__
    raise TypeError(
        "a batch must be a pair (inputs, labels) or a mapping with the key 'labels', got "
        f"{kind}: say how to take it apart with split="
    )


def _aligned(logits: Tensor, labels: Any, shift: bool) -> tuple[Tensor, Tensor]:
    """Logits and labels position by position."""
    labels = torch.as_tensor(labels)
    if logits.shape[:-1] != labels.shape:
        raise ValueError(
            f"labels must have the shape of the logits {tuple(logits.shape)} without their last "
            f"dimension, the classes; got {tuple(labels.shape)}. Where the classes are another "
            "dimension, move it: logits=lambda out: out.movedim(1, -1)"
        )
    if not shift:
        return logits, labels
    if labels.ndim < 2:
        raise ValueError(f"shift=True needs labels (batch, length), got {tuple(labels.shape)}")
    return logits[..., :-1, :], labels[..., 1:]


def _add(
    profile: TemperatureProfile, logits: Tensor, labels: Tensor, ignore_index: int, room: float
) -> None:
    """Add the rows that count, sequence by sequence: only one of them is ever copied."""
    if logits.ndim > 2:
        for sequence, targets in zip(logits, labels, strict=True):
            _add(profile, sequence, targets, ignore_index, room)
        return
    kept = torch.nonzero(labels != ignore_index)[:, 0]
    left = room - len(profile)
    if len(kept) > left:
        kept = kept[: int(left)]
    if len(kept) == 0:
        return
    if len(kept) < len(labels):
        logits, labels = logits[kept.to(logits.device)], labels[kept]
    profile.update(logits, labels)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every module is as it was."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module.training for module in modules]
    try:
        if modules:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(modules, training, strict=True):
            module.training = mode


def _moved(value: Any, device: torch.device | str | None) -> Any:
    """Tensors on the device, in whatever they are nested."""
    if device is None:
        return value
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(part, device) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_moved(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
