"""Machine code for a step of the published fit of PTS, by Numba: importing this needs it.

A step is the network forward, the slope of the loss in every row's temperature, the network
backward, and Adam. As in ``_compiled``, 64 rows go through at a time and every loop over them is
one of vector instructions; here all numbers are float64. The same step in NumPy, which is the one
to read first, is in ``calibrators.temperature._paper_recipe``.

Layers are kept by block and below one another, (blocks, units, PITCH): the inputs first, the output
last. Weights are flat in the order ``W1, b1, W2, b2, ..``. Behind the rows of a batch the last
block has copies of its first row, which count for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from calibrant.backends.numba.compiler import OPTIONS, bitcast, compiled

ROWS = 64  # of a block
PITCH = ROWS + 8  # from layer to layer: a power of two would share few places of the cache
SUMMED = {**OPTIONS, "fastmath": {"contract", "reassoc"}}  # sums in any order

_vector, _matrix, _blocks = types.float64[::1], types.float64[:, ::1], types.float64[:, :, ::1]


def _given(kind: Any, axes: int = 1) -> Any:
    """An array that is read and never written."""
    return types.Array(kind, axes, "C", readonly=True)


_indices, _numbers = _given(types.int64), _given(types.float64)
_tables = _given(types.float64, 2)
_network = (_vector, _indices, types.boolean)  # weights, widths of the layers, linear
_temperatures = (_indices, _blocks, _matrix, _numbers, _numbers)  # batch to label_gap

# --- functions of numbers -----------------------------------------------------------------------


_as_float = bitcast(types.float64, types.int64)
_as_bits = bitcast(types.int64, types.float64)

LOG2_E = float(np.log2(np.e))
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # their sum is log 2
TO_WHOLE = 1.5 * 2.0**52  # adding it leaves the nearest whole number in the lowest bits
LOWEST = -708.0  # what is smaller than exp of this counts as 0
TWO_52 = 2.0**52
TWO_52_BITS = 0x4330000000000000
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
# The inverse factorials: with |r| up to log(2) / 2 the next term is below half a unit.
F2, F3, F4, F5, F6, F7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
F8, F9, F10, F11 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800
F12, F13 = 1 / 479001600, 1 / 6227020800


@njit(inline="always", **OPTIONS)
def exp(x: float) -> float:
    """exp(x) for x up to 0."""
    shifted = x * LOG2_E + TO_WHOLE
    whole = shifted - TO_WHOLE
    r = x - whole * LN2_HIGH - whole * LN2_LOW
    high = (((((F13 * r + F12) * r + F11) * r + F10) * r + F9) * r + F8) * r + F7
    value = ((((((high * r + F6) * r + F5) * r + F4) * r + F3) * r + F2) * r + 1.0) * r + 1.0
    scaled = value * _as_float((_as_bits(shifted) + 1023) << 52)
    return scaled if x > LOWEST else 0.0


@njit(inline="always", **OPTIONS)
def log(x: float) -> float:
    """The logarithm of a positive number that is not denormal, by the series of artanh."""
    bits = _as_bits(x)
    exponent = ((bits - ROOT_HALF_BITS) >> 52) & 0xFFF  # modulo 4096: shifts without a sign
    whole = _as_float(exponent | TWO_52_BITS) - TWO_52
    whole = whole - 4096.0 if whole > 2048.0 else whole
    mantissa = _as_float(bits - (exponent << 52))
    s = (mantissa - 1.0) / (mantissa + 1.0)
    q = s * s
    low = ((((q / 21 + 1 / 19) * q + 1 / 17) * q + 1 / 15) * q + 1 / 13) * q + 1 / 11
    series = ((((low * q + 1 / 9) * q + 1 / 7) * q + 1 / 5) * q + 1 / 3) * q
    return 2.0 * s * series + (2.0 * s + whole * LN2_LOW) + whole * LN2_HIGH


# --- the network --------------------------------------------------------------------------------


@njit(inline="always", **OPTIONS)
def _row_of(batch: Any, place: int) -> int:
    """The row at a place of a batch, and behind its end the first one."""
    return batch[place] if place < batch.shape[0] else batch[0]


@njit(**OPTIONS)
def _forward(flat: Any, widths: Any, linear: bool, layers: Any) -> None:
    """The layers of one block above its inputs."""
    below, kernel = 0, 0
    for layer in range(1, widths.shape[0]):
        fan_in, fan_out = widths[layer - 1], widths[layer]
        last = layer + 1 == widths.shape[0]
        for unit in range(fan_out):
            here, bias = below + fan_in + unit, flat[kernel + fan_in * fan_out + unit]
            for row in range(ROWS):
                layers[here, row] = bias
            for i in range(0, fan_in - 4, 5):  # five at a time, so that most stays in registers
                x, at = below + i, kernel + i * fan_out + unit
                w0, w1, w2 = flat[at], flat[at + fan_out], flat[at + 2 * fan_out]
                w3, w4 = flat[at + 3 * fan_out], flat[at + 4 * fan_out]
                for row in range(ROWS):
                    layers[here, row] += (
                        w0 * layers[x, row]
                        + w1 * layers[x + 1, row]
                        + w2 * layers[x + 2, row]
                        + w3 * layers[x + 3, row]
                        + w4 * layers[x + 4, row]
                    )
            for i in range(fan_in - fan_in % 5, fan_in):
                weight = flat[kernel + i * fan_out + unit]
                for row in range(ROWS):
                    layers[here, row] += weight * layers[below + i, row]
            if not (last or linear):
                for row in range(ROWS):
                    layers[here, row] = layers[here, row] if layers[here, row] > 0.0 else 0.0
        below, kernel = below + fan_in, kernel + (fan_in + 1) * fan_out


@compiled(types.void(*_network, _tables, _indices, _blocks))
def forward(flat: Any, widths: Any, linear: bool, inputs: Any, batch: Any, layers: Any) -> None:
    """The layers of a batch."""
    for block in range(layers.shape[0]):
        here = layers[block]
        for row in range(ROWS):
            source = _row_of(batch, block * ROWS + row)
            for i in range(widths[0]):
                here[i, row] = inputs[source, i]
        _forward(flat, widths, linear, here)


@njit(**OPTIONS)
def _carry_back(
    weights: Any, linear: bool, layers: Any, above: int, here: int, carried: Any
) -> None:
    """The signal of one unit from those above it, in the place of its value."""
    for row in range(ROWS):
        carried[row] = 0.0
    for unit in range(weights.shape[0]):
        weight = weights[unit]
        for row in range(ROWS):
            carried[row] += weight * layers[above + unit, row]
    for row in range(ROWS):
        alive = linear or layers[here, row] > 0.0
        layers[here, row] = carried[row] if alive else 0.0


@njit(**SUMMED)
def _backward(
    flat: Any, widths: Any, linear: bool, layers: Any, carried: Any, gradient: Any
) -> None:
    """Add d (sum of signal times output) / d weights of one block to the gradient.

    The signal stands in the place of the output. That of every layer takes the place of its values,
    which are needed no more.
    """
    above, kernel = layers.shape[0] - 1, flat.shape[0]
    for layer in range(widths.shape[0] - 1, 0, -1):
        fan_in, fan_out = widths[layer - 1], widths[layer]
        below, kernel = above - fan_in, kernel - (fan_in + 1) * fan_out
        for unit in range(fan_out):
            total = 0.0
            for row in range(ROWS):
                total += layers[above + unit, row]
            gradient[kernel + fan_in * fan_out + unit] += total
        for i in range(fan_in):
            for unit in range(fan_out):
                total = 0.0
                for row in range(ROWS):
                    total += layers[below + i, row] * layers[above + unit, row]
                gradient[kernel + i * fan_out + unit] += total
            if layer > 1:
                weights = flat[kernel + i * fan_out : kernel + (i + 1) * fan_out]
                _carry_back(weights, linear, layers, above, below + i, carried)
        above = below


# --- slopes of the loss -------------------------------------------------------------------------


@njit(**OPTIONS)
def _inverse_temperatures(raw: Any, clip: Any, b: Any) -> None:
    """1 / |r|, within its bounds."""
    smallest, largest = clip[0], clip[1]
    for row in range(ROWS):
        size = abs(raw[row])
        size = size if size > smallest else smallest
        b[row] = 1.0 / (size if size < largest else largest)


@njit(**OPTIONS)
def _interpolate(
    t: Any, window: Any, hermite: Any, hermite_slope: Any, value: Any, rise: Any
) -> None:
    """Quintic pieces in two windows an octave apart: values and slopes."""
    for octave in range(2):
        for row in range(ROWS):
            value[octave, row] = rise[octave, row] = 0.0
    for k in range(6):
        h0, h1, h2 = hermite[k, 0], hermite[k, 1], hermite[k, 2]
        h3, h4, h5 = hermite[k, 3], hermite[k, 4], hermite[k, 5]
        s0, s1, s2 = hermite_slope[k, 0], hermite_slope[k, 1], hermite_slope[k, 2]
        s3, s4 = hermite_slope[k, 3], hermite_slope[k, 4]
        for row in range(ROWS):
            x = t[row]
            share = ((((h5 * x + h4) * x + h3) * x + h2) * x + h1) * x + h0
            tilt = (((s4 * x + s3) * x + s2) * x + s1) * x + s0
            value[0, row] += share * window[k, row]
            value[1, row] += share * window[6 + k, row]
            rise[0, row] += tilt * window[k, row]
            rise[1, row] += tilt * window[6 + k, row]


@njit(**OPTIONS)
def _place(b: Any, scale: float, grid: Any, most: float, left: Any, t: Any) -> None:
    """The node to the left of each temperature, and how far it is from there to the next."""
    lowest, step = grid[0], grid[1]
    for row in range(ROWS):
        t[row] = (log(b[row] * scale) - lowest) / step
    for row in range(ROWS):
        place = np.floor(t[row])
        place = place if place > 0.0 else 0.0
        left[row] = place if place < most else most
        t[row] -= left[row]


@njit(**OPTIONS)
def _slopes(value: Any, rise: Any, reach: Any, shares: Any, slope: Any) -> None:
    """The slope of the loss from psi and its slope at b and at 2 b."""
    of_brier, of_nll = shares[0], shares[1]
    for row in range(ROWS):
        true_slope = reach[row] - rise[0, row]
        squares = exp(value[1, row] - 2.0 * value[0, row])
        true = exp(reach[row] - value[0, row])
        brier = squares * (rise[1, row] - 2.0 * rise[0, row]) - 2.0 * true * true_slope
        slope[row] = of_brier * brier - of_nll * true_slope


@compiled(
    types.int64(
        *(*_temperatures, _numbers, types.float64, _given(types.float32, 2)),
        *(_tables, _tables, _numbers, types.int64),
    )
)
def slopes_on_nodes(
    batch: Any,
    layers: Any,
    slope: Any,
    clip: Any,
    label_gap: Any,
    shares: Any,
    scale: float,
    nodes: Any,
    hermite: Any,
    hermite_slope: Any,
    grid: Any,
    octave: int,
) -> int:
    """Slopes of a batch, from psi at nodes; how many rows lie outside of the grid.

    Their slope is NaN. ``shares`` of the losses; ``grid``: log of the first node, their distance.
    """
    b, t, left = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    reach, window = np.empty(ROWS), np.empty((12, ROWS))
    value, rise = np.empty((2, ROWS)), np.empty((2, ROWS))
    most, outside = float(nodes.shape[1] // 3 - 2 - octave), 0
    for block in range(layers.shape[0]):
        first = block * ROWS
        _inverse_temperatures(layers[block, layers.shape[1] - 1], clip, b)
        _place(b, scale, grid, most, left, t)
        for row in range(ROWS):
            source, at = _row_of(batch, first + row), 3 * int(left[row])
            reach[row] = b[row] * label_gap[source]
            for k in range(6):
                window[k, row] = nodes[source, at + k]
                window[6 + k, row] = nodes[source, at + 3 * octave + k]
        _interpolate(t, window, hermite, hermite_slope, value, rise)
        _slopes(value, rise, reach, shares, slope[block])
        for row in range(min(ROWS, batch.shape[0] - first)):
            if not 0.0 <= t[row] <= 1.0:
                slope[block, row] = np.nan
                outside += 1
    return outside


@compiled(types.int64(*_temperatures, _numbers, types.float64, _given(types.float32, 2)))
def slopes_on_gaps(
    batch: Any,
    layers: Any,
    slope: Any,
    clip: Any,
    label_gap: Any,
    shares: Any,
    scale: float,
    gaps: Any,
) -> int:
    """Slopes of a batch, from all gaps; 0, for no temperature is out of reach."""
    classes = gaps.shape[1]
    b, reach, block_gaps = np.empty(ROWS), np.empty(ROWS), np.empty((classes, ROWS))
    value, rise = np.empty((2, ROWS)), np.empty((2, ROWS))
    for block in range(layers.shape[0]):
        _inverse_temperatures(layers[block, layers.shape[1] - 1], clip, b)
        for row in range(ROWS):
            source = _row_of(batch, block * ROWS + row)
            reach[row] = b[row] * label_gap[source]
            for c in range(classes):
                block_gaps[c, row] = gaps[source, c]
            value[0, row] = value[1, row] = rise[0, row] = rise[1, row] = 0.0
        for c in range(classes):
            for row in range(ROWS):
                exponent = block_gaps[c, row] * (b[row] * scale)
                weight = exp(exponent)
                value[0, row] += weight
                rise[0, row] += weight * exponent
                value[1, row] += weight * weight
                rise[1, row] += weight * weight * exponent
        for row in range(ROWS):
            rise[0, row] /= value[0, row]
            rise[1, row] *= 2.0 / value[1, row]
            value[0, row], value[1, row] = log(value[0, row]), log(value[1, row])
        _slopes(value, rise, reach, shares, slope[block])
    return 0


# --- Adam ---------------------------------------------------------------------------------------


@compiled(
    types.void(
        *(*_network, _indices, _blocks, _matrix, _numbers, _numbers),
        *(_numbers, _matrix, types.float64, _numbers),
    )
)
def descend(
    flat: Any,
    widths: Any,
    linear: bool,
    batch: Any,
    layers: Any,
    slope: Any,
    clip: Any,
    row_weight: Any,
    decay: Any,
    moments: Any,
    rate: float,
    constants: Any,
) -> None:
    """Move the weights by one step of Adam. ``constants``: 1 - beta1, 1 - beta2, epsilon."""
    gradient, carried, last = decay * flat, np.empty(ROWS), layers.shape[1] - 1
    for block in range(layers.shape[0]):
        here, first = layers[block], block * ROWS
        for row in range(ROWS):
            size, counts = abs(here[last, row]), first + row < batch.shape[0]
            share = row_weight[_row_of(batch, first + row)] / batch.shape[0]
            moving = counts and clip[0] <= size <= clip[1]
            here[last, row] = -slope[block, row] * share / here[last, row] if moving else 0.0
        _backward(flat, widths, linear, here, carried, gradient)
    for k in range(flat.shape[0]):
        moments[0, k] += constants[0] * (gradient[k] - moments[0, k])
        moments[1, k] += constants[1] * (gradient[k] * gradient[k] - moments[1, k])
        flat[k] -= rate * moments[0, k] / (np.sqrt(moments[1, k]) + constants[2])
