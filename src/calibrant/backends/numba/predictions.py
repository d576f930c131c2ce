"""Machine code for the temperature family in float32, by Numba: importing this needs it.

Rows go through in blocks of 64, transposed, so that every loop over a block's rows is one of vector
instructions: the top values, the network, the exponentials. A block is read once and written once.
The functions are compiled for the machine at the first import, in seconds, and kept on the disk.

All return whether every row was valid: NaN or inf, or nothing finite, shows in the sum of its
exponentials.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from calibrant.backends.numba.compiler import OPTIONS, bitcast, compiled

ROWS = 64  # of a block
TOP, LOG_GAPS, MARGIN = 0, 1, 2  # readings
EXPONENTIAL, ABSOLUTE = 0, 1  # links
PART = 64  # classes whose exponentials are summed before they are added to the rest

f32, i32 = np.float32, np.int32

_scores = types.Array(types.float32, 2, "C", readonly=True)
_table = types.float32[:, ::1]
_numbers = types.Array(types.float32, 1, "C", readonly=True)
_indices = types.Array(types.int64, 1, "C", readonly=True)


# --- functions of numbers -----------------------------------------------------------------------


_as_float = bitcast(types.float32, types.int32)
_as_bits = bitcast(types.int32, types.float32)

LOG2_E = f32(1.4426950408889634)
LN2_HIGH, LN2_LOW = f32(0.693359375), f32(-2.12194440e-4)  # their sum is log 2
TO_WHOLE = f32(1.5 * 2**23)  # adding it leaves the nearest whole number in the lowest bits
INFINITY, ONE, ZERO = f32(np.inf), f32(1.0), f32(0.0)
LOWEST = f32(-87.0)  # what is smaller than exp of this counts as 0

# Minimax polynomials of Cephes (Moshier 1989), expf, logf and tanhf.
E0, E1, E2 = f32(5.0000001201e-1), f32(1.6666665459e-1), f32(4.1665795894e-2)
E3, E4, E5 = f32(8.3334519073e-3), f32(1.3981999507e-3), f32(1.9875691500e-4)
L0, L1, L2 = f32(3.3333331174e-1), f32(-2.4999993993e-1), f32(2.0000714765e-1)
L3, L4, L5 = f32(-1.6668057665e-1), f32(1.4249322787e-1), f32(-1.2420140846e-1)
L6, L7, L8 = f32(1.1676998740e-1), f32(-1.1514610310e-1), f32(7.0376836292e-2)
T0, T1, T2 = f32(-3.33332819422e-1), f32(1.33314422036e-1), f32(-5.37397155531e-2)
T3, T4 = f32(2.06390887954e-2), f32(-5.70498872745e-3)
ROOT_HALF_BITS = i32(0x3F3504F3)


@njit(inline="always", **OPTIONS)
def exp(x: Any) -> Any:
    """exp(x) for x up to 88: NaN stays, and 0 gives 1."""
    shifted = x * LOG2_E + TO_WHOLE
    whole = shifted - TO_WHOLE
    r = x - whole * LN2_HIGH - whole * LN2_LOW
    rest = ((((E5 * r + E4) * r + E3) * r + E2) * r + E1) * r + E0
    value = (rest * r * r + r + ONE) * _as_float((_as_bits(shifted) + i32(127)) << i32(23))
    return value if x > LOWEST else (ZERO if x <= LOWEST else x)


@njit(inline="always", **OPTIONS)
def log(x: Any) -> Any:
    """The logarithm of a positive number that is not denormal; that of inf is large."""
    bits = _as_bits(x)
    exponent = (bits - ROOT_HALF_BITS) >> i32(23)
    r = _as_float(bits - (exponent << i32(23))) - ONE
    low = (((L8 * r + L7) * r + L6) * r + L5) * r + L4
    rest = (((low * r + L3) * r + L2) * r + L1) * r + L0
    whole = f32(exponent)
    return r + (rest * r * r * r + whole * LN2_LOW - f32(0.5) * r * r) + whole * LN2_HIGH


@njit(inline="always", **OPTIONS)
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    sign = ONE if x > ZERO else -ONE
    size, square = x * sign, x * x
    grown = exp((size if size < f32(10.0) else f32(10.0)) * f32(2.0))
    far = sign - sign * f32(2.0) / (grown + ONE)
    near = ((((T4 * square + T3) * square + T2) * square + T1) * square + T0) * square * x + x
    return near if size < f32(0.625) else far


# --- blocks of rows -----------------------------------------------------------------------------


@njit(**OPTIONS)
def _load(logits: Any, first: int, count: int, block: Any) -> None:
    """Rows of logits into the columns of a block; there may be fewer at the end."""
    for row in range(count):
        for c in range(logits.shape[1]):
            block[c, row] = logits[first + row, c]
    for row in range(count, ROWS):
        for c in range(logits.shape[1]):
            block[c, row] = ZERO


@njit(**OPTIONS)
def _find_peaks(block: Any, peak: Any) -> None:
    for row in range(ROWS):
        peak[row] = -INFINITY
    for c in range(block.shape[0]):
        for row in range(ROWS):
            value = block[c, row]
            peak[row] = value if value > peak[row] else peak[row]


@njit(**OPTIONS)
def _exponentiate(block: Any, peak: Any, rate: Any, part: Any, total: Any) -> bool:
    """exp((z - peak) rate) in the place of z, and the sums; whether these are of valid rows."""
    classes = block.shape[0]
    for row in range(ROWS):
        total[row] = ZERO
    for start in range(0, classes, PART):
        for row in range(ROWS):
            part[row] = ZERO
        for c in range(start, min(start + PART, classes)):
            for row in range(ROWS):
                weight = exp((block[c, row] - peak[row]) * rate[row])
                block[c, row] = weight
                part[row] += weight
        for row in range(ROWS):
            total[row] += part[row]
    valid = True
    for row in range(ROWS):
        valid &= (total[row] >= f32(0.5)) & (total[row] < INFINITY)
    return valid


@njit(**OPTIONS)
def _store(block: Any, total: Any, out: Any, first: int, count: int) -> None:
    for row in range(count):
        share = ONE / total[row]
        for c in range(block.shape[0]):
            out[first + row, c] = block[c, row] * share


# --- one temperature, and a mixture around one --------------------------------------------------


@compiled(types.boolean(_scores, _table, types.float32))
def scaled(logits: Any, out: Any, temperature: Any) -> bool:
    """softmax(z / T)."""
    block = np.empty((logits.shape[1], ROWS), f32)
    peak, part, total = np.empty(ROWS, f32), np.empty(ROWS, f32), np.empty(ROWS, f32)
    rate = np.full(ROWS, ONE / temperature, f32)
    valid = True
    for first in range(0, logits.shape[0], ROWS):
        count = min(ROWS, logits.shape[0] - first)
        _load(logits, first, count, block)
        _find_peaks(block, peak)
        valid &= _exponentiate(block, peak, rate, part, total)
        _store(block, total, out, first, count)
    return valid


@compiled(
    types.boolean(_scores, _table, types.float32, types.float32, types.float32, types.float32)
)
def mixed(logits: Any, out: Any, temperature: Any, warm: Any, plain: Any, even: Any) -> bool:
    """warm softmax(z / T) + plain softmax(z) + even / C, C counting what is not masked."""
    classes = logits.shape[1]
    block, other = np.empty((classes, ROWS), f32), np.empty((classes, ROWS), f32)
    peak, part, total = np.empty(ROWS, f32), np.empty(ROWS, f32), np.empty(ROWS, f32)
    plain_total, finite = np.empty(ROWS, f32), np.empty(ROWS, f32)
    rate, one = np.full(ROWS, ONE / temperature, f32), np.full(ROWS, ONE, f32)
    valid = True
    for first in range(0, logits.shape[0], ROWS):
        count = min(ROWS, logits.shape[0] - first)
        _load(logits, first, count, block)
        _find_peaks(block, peak)
        for row in range(ROWS):
            finite[row] = ZERO
        for c in range(classes):
            for row in range(ROWS):
                other[c, row] = block[c, row]
                finite[row] += ONE if block[c, row] > -INFINITY else ZERO
        valid &= _exponentiate(block, peak, rate, part, total)
        valid &= _exponentiate(other, peak, one, part, plain_total)
        for row in range(count):
            of_warm, of_plain = warm / total[row], plain / plain_total[row]
            of_even = even / finite[row]
            for c in range(classes):
                share = of_even if logits[first + row, c] > -INFINITY else ZERO
                out[first + row, c] = block[c, row] * of_warm + other[c, row] * of_plain + share
    return valid


# --- a network's temperature --------------------------------------------------------------------


@njit(**OPTIONS)
def _find_top(block: Any, top: Any, value: Any) -> None:
    """The largest values of each row, falling; its smallest finite one fills up."""
    k = top.shape[0]
    for i in range(k):
        for row in range(ROWS):
            top[i, row] = -INFINITY
    for c in range(block.shape[0]):
        new = False
        for row in range(ROWS):
            value[row] = block[c, row]
            new |= value[row] > top[k - 1, row]
        if not new:
            continue
        for i in range(0, k - 4, 5):  # five at a time, so that most stays in registers
            for row in range(ROWS):
                v0, v1, v2, v3, v4 = value[row], ZERO, ZERO, ZERO, ZERO
                t0, t1, t2, t3, t4 = (
                    top[i, row],
                    top[i + 1, row],
                    top[i + 2, row],
                    top[i + 3, row],
                    top[i + 4, row],
                )
                top[i, row], v1 = (v0, t0) if v0 > t0 else (t0, v0)
                top[i + 1, row], v2 = (v1, t1) if v1 > t1 else (t1, v1)
                top[i + 2, row], v3 = (v2, t2) if v2 > t2 else (t2, v2)
                top[i + 3, row], v4 = (v3, t3) if v3 > t3 else (t3, v3)
                top[i + 4, row], value[row] = (v4, t4) if v4 > t4 else (t4, v4)
        for i in range(k - k % 5, k):
            for row in range(ROWS):
                mine, theirs = top[i, row], value[row]
                top[i, row] = theirs if theirs > mine else mine
                value[row] = mine if theirs > mine else theirs
    for i in range(1, k):
        for row in range(ROWS):
            top[i, row] = top[i, row] if top[i, row] > -INFINITY else top[i - 1, row]


@njit(**OPTIONS)
def _read(top: Any, reading: int, numbers: Any, low: Any, high: Any, inputs: Any) -> None:
    """What a network reads of the largest values."""
    unit, smallest, origin = numbers[0], numbers[1], numbers[4]
    for i in range(low.shape[0]):
        if reading == MARGIN:
            for row in range(ROWS):
                inputs[i, row] = top[0, row] - top[1, row]
        elif reading == LOG_GAPS and i > 0:
            for row in range(ROWS):
                inputs[i, row] = log((top[0, row] - top[i, row]) / unit + smallest)
        else:
            for row in range(ROWS):
                inputs[i, row] = top[i, row] - origin
        least, most = low[i], high[i]
        for row in range(ROWS):
            value = inputs[i, row] if inputs[i, row] > least else least
            inputs[i, row] = value if value < most else most


@njit(**OPTIONS)
def _layer(x: Any, y: Any, bias: Any, starts: Any, index: Any, weight: Any, relu: bool) -> None:
    """One layer: unit u has the weights from starts[u] on, of the inputs that are named."""
    for unit in range(bias.shape[0]):
        for row in range(ROWS):
            y[unit, row] = bias[unit]
        begin, end = starts[unit], starts[unit + 1]
        for at in range(begin, end - 4, 5):  # five at a time, as above
            w0, w1, w2, w3, w4 = (
                weight[at],
                weight[at + 1],
                weight[at + 2],
                weight[at + 3],
                weight[at + 4],
            )
            s0, s1, s2, s3, s4 = (
                index[at],
                index[at + 1],
                index[at + 2],
                index[at + 3],
                index[at + 4],
            )
            for row in range(ROWS):
                y[unit, row] += (
                    w0 * x[s0, row]
                    + w1 * x[s1, row]
                    + w2 * x[s2, row]
                    + w3 * x[s3, row]
                    + w4 * x[s4, row]
                )
        for at in range(end - (end - begin) % 5, end):
            factor, source = weight[at], index[at]
            for row in range(ROWS):
                y[unit, row] += factor * x[source, row]
        if relu:
            for row in range(ROWS):
                y[unit, row] = y[unit, row] if y[unit, row] > ZERO else ZERO


@njit(**OPTIONS)
def _linked(outputs: Any, count: int, link: int, first: Any, second: Any, temperature: Any) -> None:
    """Temperatures from the outputs of networks."""
    for row in range(ROWS):
        temperature[row] = ZERO
    if link == ABSOLUTE:
        for row in range(ROWS):
            temperature[row] = min(max(abs(outputs[0, row]), first), second)
        return
    for unit in range(count):
        for row in range(ROWS):
            temperature[row] += tanh(outputs[unit, row] / second)
    for row in range(ROWS):
        temperature[row] = first * exp(second * (temperature[row] / f32(count)))


@compiled(
    types.boolean(
        _scores,
        _table,
        types.int64,
        types.int64,
        types.int64,
        types.boolean,
        _numbers,
        _numbers,
        _numbers,
        _indices,
        _numbers,
        _indices,
        _indices,
        _numbers,
    )
)
def networked(
    logits: Any,
    out: Any,
    k: int,
    reading: int,
    link: int,
    linear: bool,
    numbers: Any,
    low: Any,
    high: Any,
    units: Any,
    bias: Any,
    starts: Any,
    index: Any,
    weight: Any,
) -> bool:
    """softmax(z / T) with the T of a network for each row; see ``dispatch`` for the arrays."""
    classes, widest = logits.shape[1], max(units.max(), low.shape[0])
    block, top = np.empty((classes, ROWS), f32), np.empty((k, ROWS), f32)
    x, y = np.empty((widest, ROWS), f32), np.empty((widest, ROWS), f32)
    part, total, rate = np.empty(ROWS, f32), np.empty(ROWS, f32), np.empty(ROWS, f32)
    valid = True
    for first in range(0, logits.shape[0], ROWS):
        count = min(ROWS, logits.shape[0] - first)
        _load(logits, first, count, block)
        _find_top(block, top, part)
        _read(top, reading, numbers, low, high, x)
        begin = 0
        for layer in range(units.shape[0]):
            end, relu = begin + units[layer], layer + 1 < units.shape[0] and not linear
            _layer(x, y, bias[begin:end], starts[begin : end + 1], index, weight, relu)
            x, y, begin = y, x, end
        _linked(x, units[-1], link, numbers[2], numbers[3], rate)
        for row in range(ROWS):
            rate[row] = ONE / rate[row]
        valid &= _exponentiate(block, top[0], rate, part, total)
        _store(block, total, out, first, count)
    return valid
