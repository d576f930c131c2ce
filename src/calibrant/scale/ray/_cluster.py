"""The cluster, what runs on it, and what becomes of errors on the way back."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from types import ModuleType
from typing import Any, TypeVar

from calibrant.common.extras import need

State = TypeVar("State")
STATE = "state"  # the column that states travel in

Merge = Callable[[Any, Any], Any]


def ray_module() -> Any:
    """The package ``ray``."""
    return need("ray", "ray", "calibrant.ray needs")


def ray_data() -> Any:
    """The package ``ray.data``."""
    return need("ray.data", "ray", "calibrant.ray needs")


def connected(address: str | None = None) -> ModuleType:
    """Connect to a cluster, or start one here, and give what works on files there.

    Parameters
    ----------
    address : str, optional
        Of the cluster; by default what the variable RAY_ADDRESS says, or a cluster on this
        machine. Where this process is connected already, that stays.

    Returns
    -------
    module
        With ``fit_stream``, ``apply_stream`` and ``evaluate_stream``, which take what the functions
        of these names in ``calibrant.streams`` do. All machines must see the files under the same
        names.

    Examples
    --------
    >>> import calibrant.ray
    >>> from calibrant.streams import open_stream
    >>> def on_a_cluster(folder):
    ...     cluster = calibrant.ray.connected("auto")
    ...     return cluster.fit_stream(open_stream(folder), "pts")
    """
    ray = ray_module()
    if not ray.is_initialized():
        # what is read is not given to Ray's workers: only states, and rows that were asked for
        options = {"include_dashboard": False} if not (address or os.getenv("RAY_ADDRESS")) else {}
        ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False, **options)
    from calibrant.scale.ray import _files

    return _files


def merged_states(dataset: Any, merge: Callable[[State, State], State]) -> State:
    """The one state of all rows of a data set whose only column holds pickled states.

    Ray's aggregation merges them where they are, block by block.
    """
    aggregate = need("ray.data.aggregate", "ray", "calibrant.ray needs")
    function = aggregate.AggregateFn(
        init=lambda key: b"",
        accumulate_block=lambda known, block: _merged(merge, [known, *_column(block)]),
        merge=lambda one, other: _merged(merge, [one, other]),
        name=STATE,
    )
    found = dataset.aggregate(function)
    whole: State = pickle.loads(found[STATE])
    return whole


def state_table(state: Any) -> Any:
    """A state as a table of one row."""
    import pyarrow

    packed = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
    return pyarrow.table({STATE: pyarrow.array([packed], pyarrow.large_binary())})


def _merged(merge: Merge, packed: list[bytes]) -> bytes:
    states = [one for one in packed if one]
    if len(states) < 2:
        return states[0] if states else b""
    return pickle.dumps(reduce(merge, map(pickle.loads, states)), protocol=pickle.HIGHEST_PROTOCOL)


def _column(block: Any) -> list[bytes]:
    """The states of a block: an Arrow table, or a pandas frame."""
    column = block[STATE]
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


@contextmanager
def quiet() -> Iterator[None]:
    """Ray Data without bars and news, and with the errors of our code as they were raised.

    A data set keeps the settings of the time when it was made.
    """
    context, logger = ray_data().DataContext.get_current(), logging.getLogger("ray.data")
    wanted = {
        "enable_progress_bars": False,
        "enable_operator_progress_bars": False,
        "raise_original_map_exception": True,
    }
    before = {name: getattr(context, name) for name in wanted}
    level = logger.level
    try:
        logger.setLevel(logging.WARNING)
        for name, value in wanted.items():
            setattr(context, name, value)
        yield
    finally:
        logger.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)


@contextmanager
def on_workers() -> Iterator[None]:
    """For what runs on workers: an error about rows or files is raised here as they raised it."""
    try:
        with quiet():
            yield
    except Exception as error:
        cause = _cause(error)
        if cause is None:
            raise
        raise cause from None


def _cause(error: BaseException | None) -> BaseException | None:
    """The error that user code raised, behind all that Ray says about it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if type(error).__module__.partition(".")[0] != "ray" and isinstance(
            error, ValueError | TypeError | MemoryError | OSError
        ):
            return error
        error = getattr(error, "cause", None) or error.__cause__
    return None
