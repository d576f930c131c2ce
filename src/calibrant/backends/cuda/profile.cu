// The summary of rows of logits that a TemperatureProfile keeps, see `_partition.NodeRows`: one
// warp per row. The row is read twice (from the caches the second time, or held in registers): for
// its largest values, and for the sums over its classes.
//
// Beside the layout of rows.cuh (LANES = 32, WARPS = 1) and TOP:
//   NODES       of the grid               FIRST_RATES   its first octave, 4 inverse temperatures
//   DEEPEST     smaller gaps count as this
//
// With gaps d = (z - max z) / scale, the sums of exp(b d), d exp(b d) and d^2 exp(b d) at every node
// b. The grid has 4 nodes per octave, so that exp(2 b d) = exp(b d)^2 gives every second octave.

#define LOG2_E 1.4426950408889634f
#define PER_OCTAVE 4
#define PAIRS ((NODES + 2 * PER_OCTAVE - 1) / (2 * PER_OCTAVE))  // of octaves, the last not whole
#define SUMS (3 * 2 * PER_OCTAVE)                               // of each pair

struct Summary {
  float* nodes;  // (rows, NODES, 3): psi and its first two derivatives in log b
  float* top;    // (rows, TOP): the largest gaps
  int* finite;   // (rows,) each
  int* ties;
  float* mean;
  float* peak;
  float* label_gap;
  int* noticed;  // set where a row has NaN, inf, no finite value, or gaps that overflow
};

DEVICE float grid_at(int node) {
  constexpr float first[] = {FIRST_RATES};
  float rate = first[0];
#pragma unroll
  for (int i = 1; i < PER_OCTAVE; ++i) rate = node % PER_OCTAVE == i ? first[i] : rate;
  return rate * (float)(1 << node / PER_OCTAVE);
}

struct Counts { float finite, ties; double total; };

// Values become gaps. Where the gap of a finite value overflows, the total is -inf.
DEVICE void gaps_of(float (&v)[SLOTS], float peak, float rate, Counts& counts) {
  float total = 0.0f;
#pragma unroll
  for (int slot = 0; slot < SLOTS; ++slot) {
    const bool masked = v[slot] == -infinity();
    v[slot] = (v[slot] - peak) * rate;
    counts.finite += masked ? 0.0f : 1.0f;
    counts.ties += v[slot] == 0.0f ? 1.0f : 0.0f;
    total += masked ? 0.0f : v[slot];
  }
  counts.total += total;
}

// Lane i gets the sum over all lanes of their i-th value: halves are exchanged, then quarters, ..
template <int HALF> DEVICE float sum_of_lane(float (&values)[32]) {
  if constexpr (HALF == 0) return values[0];
  else {
    const bool upper = lane_of_warp() & HALF;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
      const float kept = upper ? values[i + HALF] : values[i];
      const float sent = upper ? values[i] : values[i + HALF];
      values[i] = kept + shuffle_xor(sent, HALF);
    }
    return sum_of_lane<HALF / 2>(values);
  }
}

// The sums of a pair of octaves, in the order: exp(b d), d exp(b d), d^2 exp(b d) of its 8 nodes.
DEVICE float sums_of_pair(const float (&gaps)[SLOTS], int pair) {
  float sums[32] = {};
#pragma unroll
  for (int node = 0; node < PER_OCTAVE; ++node) {
    const float rate = grid_at(node) * (float)(1 << 2 * pair) * LOG2_E;
    float* near = sums + node;
    float* far = sums + PER_OCTAVE + node;
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
      const float gap = gaps[slot];
      const float weight = exp2_fast(gap * rate), moment = weight * gap;
      const float square = weight * weight, square_moment = square * gap;
      near[0] += weight;
      near[2 * PER_OCTAVE] += moment;
      near[4 * PER_OCTAVE] = fmaf(moment, gap, near[4 * PER_OCTAVE]);
      far[0] += square;
      far[2 * PER_OCTAVE] += square_moment;
      far[4 * PER_OCTAVE] = fmaf(square_moment, gap, far[4 * PER_OCTAVE]);
    }
  }
  return sum_of_lane<16>(sums);
}

// psi and its derivatives at every node, from the sums
DEVICE void nodes_of(const float (&sums)[PAIRS][32], float (&nodes)[NODES * 3]) {
  for (int node = lane_of_warp(); node < NODES; node += 32) {
    const float* of = sums[node / (2 * PER_OCTAVE)] + node % (2 * PER_OCTAVE);
    const float mean = of[2 * PER_OCTAVE] / of[0];
    const float variance = of[4 * PER_OCTAVE] / of[0] - mean * mean;
    const float b = grid_at(node), slope = b * mean;
    nodes[3 * node] = logf(of[0]);
    nodes[3 * node + 1] = slope;
    nodes[3 * node + 2] = slope + b * b * variance;
  }
}

KERNEL profile(const input_t* logits, const int64* labels, Summary out, int64 rows, float scale) {
  __shared__ float all_sums[BLOCK_WARPS][PAIRS][32];
  __shared__ float all_nodes[BLOCK_WARPS][NODES * 3];
  float(&sums)[PAIRS][32] = all_sums[warp_of_block()];
  float(&nodes)[NODES * 3] = all_nodes[warp_of_block()];
  const int lane = lane_of_warp();
  const float rate = 1.0f / scale;
  const int64 step = (int64)block_count() * BLOCK_WARPS;
  for (int64 index = (int64)block_index() * BLOCK_WARPS + warp_of_block(); index < rows; index += step) {
    const input_t* row = logits + index * CLASSES;
    float v[SLOTS], list = -infinity();
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      read_row(row, chunk, v);
      list = with_values(list, v);
    }
    const float peak = shuffle(list, 0);
    Counts counts = {0.0f, 0.0f, 0.0};
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      if (CHUNKS > 1) read_row(row, chunk, v);
      gaps_of(v, peak, rate, counts);
#pragma unroll
      for (int slot = 0; slot < SLOTS; ++slot) v[slot] = v[slot] < DEEPEST ? DEEPEST : v[slot];
#pragma unroll 1
      for (int pair = 0; pair < PAIRS; ++pair) {
        const float more = sums_of_pair(v, pair);
        sums[pair][lane] = chunk == 0 ? more : sums[pair][lane] + more;
      }
    }
    wait_for_warp();
    nodes_of(sums, nodes);
    wait_for_warp();
    for (int i = lane; i < NODES * 3; i += 32) out.nodes[index * (NODES * 3) + i] = nodes[i];
    const float finite = over_lanes<Sum>(counts.finite), ties = over_lanes<Sum>(counts.ties);
    const double total = over_lanes<Sum>((float)counts.total);
    const float gap = (filled_up(list) - peak) * rate;
    if (lane < TOP) out.top[index * TOP + lane] = gap;
    if (lane == 0) {
      const float label_gap = (as_float(row[labels[index]]) - peak) * rate;
      out.finite[index] = (int)finite;
      out.ties[index] = (int)ties;
      out.mean[index] = (float)(total / finite);
      out.peak[index] = peak;
      out.label_gap[index] = label_gap;
      const float sum = sums[0][0];
      if (!(sum >= 0.5f && sum < infinity() && total > -infinity())) *out.noticed = 1;
    }
    wait_for_warp();
  }
}
