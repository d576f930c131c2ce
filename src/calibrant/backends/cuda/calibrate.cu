// Calibrated probabilities of rows of logits: read once, written once.
//
// Beside the layout of rows.cuh, specialised for a formula (`_plan.py`):
//   FORMULA   0 one temperature, 1 a network's temperature, 2 a mixture around one temperature
//   OUTPUT    0 probabilities, 1 their logarithms, 2 the largest one, its class, the temperature
// and for networks:
//   READING   0 the largest logits, 1 log gaps, 2 the margin, 3 the log of the entropy
//   INPUTS    what a network reads          WIDTHS   inputs, hidden units.., 1 of one member
//   MEMBERS   networks that are averaged    LAYERS   of each
//   LINEAR    whether no ReLU is between    LINK     0 exponential, 1 absolute
// The fitted numbers are float64 in device memory, in the order of the formula's fields.

#define LOG2_E 1.4426950408889634f
#define MASKED -1.0f  // in the place of the weight of a masked class

struct Fitted { const double* at[16]; };

// --- fitted numbers to shared memory ---------------------------------------------------------

#if FORMULA == 0
struct Numbers { float temperature; };

DEVICE void keep(Numbers& numbers, const Fitted& fitted) {
  if (thread_index() == 0) numbers.temperature = (float)*fitted.at[0];
}
#elif FORMULA == 2
struct Numbers { float temperature, weights[3]; };

DEVICE void keep(Numbers& numbers, const Fitted& fitted) {
  if (thread_index() == 0) numbers.temperature = (float)*fitted.at[0];
  if (thread_index() < 3) numbers.weights[thread_index()] = (float)fitted.at[1][thread_index()];
}
#else
constexpr DEVICE int width(int layer) {
  constexpr int all[] = {WIDTHS};
  return all[layer];
}
// A unit's bias and weights are read four at a time: they begin at a multiple of four, an odd one,
// so that neighbours lie in different banks.
constexpr DEVICE int unit_size(int layer) { return 4 * (((width(layer) + 4) / 4) | 1); }
constexpr DEVICE int layer_start(int layer) {
  int start = 0;
  for (int l = 0; l < layer; ++l) start += MEMBERS * width(l + 1) * unit_size(l);
  return start;
}
struct alignas(16) Four { float at[4]; };

// How many numbers a reading has before the network's.
constexpr int READING_NUMBERS = READING == 1 ? 3 : READING == 2 ? 0 : 1;

struct Numbers {
  float reading[3], link[2], low[INPUTS], high[INPUTS];
  alignas(16) float weights[layer_start(LAYERS)];
};

// The kernels of all members lie along the diagonal of one, the first ones side by side.
template <int L> DEVICE void keep_layers(float* weights, const Fitted& fitted) {
  const double* kernel = fitted.at[READING_NUMBERS + 2 + 2 * L];
  const double* bias = fitted.at[READING_NUMBERS + 3 + 2 * L];
  constexpr int in = width(L), out = width(L + 1), units = MEMBERS * out;
  for (int i = thread_index(); i < units * (in + 1); i += THREADS) {
    const int unit = i / (in + 1), input = i % (in + 1) - 1;
    const int row = (L == 0 ? 0 : unit / out * in) + input;
    const double value = input < 0 ? bias[unit] : kernel[row * units + unit];
    weights[layer_start(L) + unit * unit_size(L) + input + 1] = (float)value;
  }
  if constexpr (L + 1 < LAYERS) keep_layers<L + 1>(weights, fitted);
}

DEVICE void keep(Numbers& numbers, const Fitted& fitted) {
  if (thread_index() == 0) {
#pragma unroll
    for (int i = 0; i < READING_NUMBERS; ++i) numbers.reading[i] = (float)*fitted.at[i];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      numbers.link[i] = (float)*fitted.at[READING_NUMBERS + 2 + 2 * LAYERS + i];
    }
  }
  for (int i = thread_index(); i < INPUTS; i += THREADS) {
    numbers.low[i] = (float)fitted.at[READING_NUMBERS][i];
    numbers.high[i] = (float)fitted.at[READING_NUMBERS + 1][i];
  }
  keep_layers<0>(numbers.weights, fitted);
}

// --- what a network reads, and its temperature -------------------------------------------------

// one input, from the largest value and the i-th
DEVICE float input_of(int i, float first, float value, const Numbers& numbers) {
  if (READING == 0) value -= numbers.reading[0];
  if (READING == 1 && i == 0) value -= numbers.reading[2];
  if (READING == 1 && i > 0) {
    value = log_fast((first - value) * inverse_of(numbers.reading[0]) + numbers.reading[1]);
  }
  if (READING == 2) value = first - value;
  return fminf(fmaxf(value, numbers.low[i]), numbers.high[i]);
}

// one unit of a layer
template <int L, typename Values>
DEVICE float unit_output(const Values& x, const float* weights, int unit) {
  const Four* four = (const Four*)(weights + layer_start(L) + unit * unit_size(L));
  Four w = four[0];
  float value = w.at[0];
#pragma unroll
  for (int i = 1; i <= width(L); ++i) {
    if (i % 4 == 0) w = four[i / 4];
    value = fmaf(x[i - 1], w.at[i % 4], value);
  }
  return L + 1 < LAYERS && !LINEAR ? fmaxf(value, 0.0f) : value;
}

// what a member's output adds to the link
DEVICE float link_term(float output, const Numbers& numbers) {
  if (LINK == 1) return fabsf(output);
  const float grown = exp2_fast(output * (2.0f * LOG2_E) * inverse_of(numbers.link[1]));
  return 1.0f - 2.0f * inverse_of(grown + 1.0f);  // tanh(output / reach)
}

DEVICE float linked(float total, const Numbers& numbers) {
  total = over_lanes<Sum>(total);
  if (LINK == 1) return fminf(fmaxf(total, numbers.link[0]), numbers.link[1]);
  return numbers.link[0] * exp2_fast(LOG2_E * numbers.link[1] * (total / MEMBERS));
}

#if LANES < 32
// Every thread of a row has all inputs; the members are shared out among them.
template <int L> DEVICE float member_output(const float (&x)[width(L)], const float* weights, int member) {
  float y[width(L + 1)];
#pragma unroll
  for (int unit = 0; unit < width(L + 1); ++unit) {
    y[unit] = unit_output<L>(x, weights, member * width(L + 1) + unit);
  }
  if constexpr (L + 1 == LAYERS) return y[0];
  else return member_output<L + 1>(y, weights, member);
}

DEVICE float network_temperature(const float (&x)[INPUTS], const Numbers& numbers) {
  float total = 0.0f;
#pragma unroll 1
  for (int member = thread_index() % LANES; member < MEMBERS; member += LANES) {
    total += link_term(member_output<0>(x, numbers.weights, member), numbers);
  }
  return linked(total, numbers);
}
#else
// Lane i of a warp has the i-th input; the units of a layer are shared out among the lanes.
constexpr DEVICE int room(int layer) { return (width(layer) + 3) / 4 * 4; }  // of a member's values
constexpr DEVICE int most_room() {
  int most = 0;
  for (int l = 0; l < LAYERS; ++l) most = room(l) > most ? room(l) : most;
  return most;
}

template <int L> DEVICE float layer_output(float* from, float* to, const Numbers& numbers) {
  constexpr int out = width(L + 1);
  float total = 0.0f;
  wait_for_warp();
#pragma unroll
  for (int first = 0; first < MEMBERS * out; first += 32) {
    const int unit = first + lane_of_warp();
    if (unit >= MEMBERS * out) continue;
    const float* x = from + (L == 0 ? 0 : unit / out * room(L));
    const float value = unit_output<L>(x, numbers.weights, unit);
    if constexpr (L + 1 == LAYERS) total += link_term(value, numbers);
    else to[unit / out * room(L + 1) + unit % out] = value;
  }
  if constexpr (L + 1 == LAYERS) return total;
  else return layer_output<L + 1>(to, from, numbers);
}

DEVICE float network_temperature(float x, const Numbers& numbers) {
  alignas(16) __shared__ float values[BLOCK_WARPS][2][MEMBERS * most_room()];
  float* mine = values[warp_of_block()][0];
  wait_for_warp();
  if (lane_of_warp() < INPUTS) mine[lane_of_warp()] = x;
  return linked(layer_output<0>(mine, values[warp_of_block()][1], numbers), numbers);
}
#endif

#if READING == 3
// its entropy over the largest possible one, as `_rows.entropy_share`
DEVICE float entropy_share(const input_t* row, float (&v)[SLOTS], float peak) {
  float below = 0.0f, ties = 0.0f, moment = 0.0f, finite = 0.0f;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if (CHUNKS > 1) read_row(row, chunk, v);
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
      const float gap = v[slot] - peak, weight = exp2_fast(gap * LOG2_E);
      const bool masked = gap == -infinity();
      below += gap < 0.0f ? weight : 0.0f;
      ties += gap == 0.0f ? 1.0f : 0.0f;
      moment += masked ? 0.0f : gap * weight;
      finite += masked ? 0.0f : 1.0f;
    }
  }
  const float rest = over_team<Sum>(below) + (over_team<Sum>(ties) - 1.0f);
  const float entropy = log1pf(rest) - over_team<Sum>(moment) / (rest + 1.0f);
  return entropy / logf(fmaxf(over_team<Sum>(finite), 2.0f));
}
#endif
#endif

// --- a row -----------------------------------------------------------------------------------

struct Row { float peak, temperature; };

DEVICE float peak_of(const input_t* row, float (&v)[SLOTS]) {
  float peak = -infinity();
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if (CHUNKS > 1) read_row(row, chunk, v);
    peak = fmaxf(peak, largest_slot(v));
  }
  return over_team<Largest>(peak);
}

// The first pass over a row: its largest value and its temperature.
DEVICE Row first_pass(const input_t* row, float (&v)[SLOTS], const Numbers& numbers) {
#if FORMULA != 1
  return {peak_of(row, v), numbers.temperature};
#elif READING == 3
  const float peak = peak_of(row, v);
  const float input = log_fast(fmaxf(entropy_share(row, v, peak), numbers.reading[0]));
  const float x[1] = {input_of(0, 0.0f, input, numbers)};
#if LANES < 32
  return {peak, network_temperature(x, numbers)};
#else
  return {peak, network_temperature(x[0], numbers)};
#endif
#elif LANES < 32
  float top[TOP], x[INPUTS];
  find_top(v, top);
#pragma unroll
  for (int i = 0; i < INPUTS; ++i) x[i] = input_of(i, top[0], top[READING == 2 ? 1 : i], numbers);
  return {top[0], network_temperature(x, numbers)};
#else
  float list = -infinity();
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if (CHUNKS > 1) read_row(row, chunk, v);
    list = with_values(list, v);
  }
  if (WARPS > 1) list = joined_lists(list);
  const float peak = shuffle(list, 0);
  list = filled_up(list);
  if (READING == 2) list = shuffle(list, 1);
  const int i = min(lane_of_warp(), INPUTS - 1);
  return {peak, network_temperature(input_of(i, peak, list, numbers), numbers)};
#endif
}

// What the values of a row are divided by, and the first class with the largest value.
struct Sums { float scaled, plain, finite; int label; };

DEVICE Sums second_pass(const input_t* row, float (&v)[SLOTS], float (&plain)[SLOTS], Row about) {
  const float rate = LOG2_E * inverse_of(about.temperature);
  Sums sums = {0.0f, 0.0f, 0.0f, CLASSES};
#pragma unroll 1
  for (int chunk = CHUNKS - 1; chunk >= 0; --chunk) {  // what was read last is still near
    if (CHUNKS > 1) read_row(row, chunk, v);
    int largest = SLOTS;
#pragma unroll
    for (int slot = SLOTS - 1; slot >= 0; --slot) {  // the first of ties is found last
      const float gap = v[slot] - about.peak;
      if (OUTPUT == 2 && gap == 0.0f) largest = slot;
      const float weight = exp2_fast(gap * rate);
      sums.scaled += weight;
#if FORMULA == 2
      const float other = exp2_fast(gap * LOG2_E);
      const bool masked = v[slot] == -infinity();  // not by the gap, which may overflow
      sums.plain += other;
      sums.finite += masked ? 0.0f : 1.0f;
      plain[slot] = masked ? MASKED : other;
#endif
      if (CHUNKS == 1 && OUTPUT == 0) v[slot] = weight;
    }
    if (OUTPUT == 2 && largest < SLOTS) sums.label = class_of(chunk, largest);
  }
  sums.scaled = over_team<Sum>(sums.scaled);
#if FORMULA == 2
  sums.plain = over_team<Sum>(sums.plain);
  sums.finite = over_team<Sum>(sums.finite);
#endif
  if (OUTPUT == 2) sums.label = over_team<Smallest>(sums.label);
  return sums;
}

// The factors of the third pass: result = scaled * weight (+ plain * plain weight + even).
struct Shares { float scaled, plain, even; };

DEVICE Shares shares_of(const Sums& sums, const Numbers& numbers) {
#if FORMULA == 2
  return {numbers.weights[0] / sums.scaled, numbers.weights[1] / sums.plain,
          numbers.weights[2] / sums.finite};
#else
  return {1.0f / sums.scaled, 0.0f, 0.0f};
#endif
}

DEVICE void results(float (&v)[SLOTS], float (&plain)[SLOTS], Row about, const Sums& sums,
                    const Shares& shares) {
  const float inverse = inverse_of(about.temperature), rate = LOG2_E * inverse;
  const float log_sum = logf(sums.scaled);
#pragma unroll
  for (int slot = 0; slot < SLOTS; ++slot) {
    const float gap = v[slot] - about.peak;
    if (OUTPUT == 1) {
      v[slot] = gap * inverse - log_sum;
      continue;
    }
    const float weight = CHUNKS == 1 ? v[slot] : exp2_fast(gap * rate);
#if FORMULA == 2
    const bool masked = CHUNKS == 1 ? plain[slot] == MASKED : v[slot] == -infinity();
    const float other = CHUNKS == 1 ? plain[slot] : exp2_fast(gap * LOG2_E);
    v[slot] = masked ? 0.0f : weight * shares.scaled + (other * shares.plain + shares.even);
#else
    v[slot] = weight * shares.scaled;
#endif
  }
}

// --- many rows -------------------------------------------------------------------------------

struct Out {
  float* values;             // (rows, CLASSES): probabilities or their logarithms
  float* confidence;         // (rows,) each
  int64* label;
  float* temperature;
  int* noticed;              // what the host should know, see below; null: nothing
  int64 rows;
};

DEVICE void write_row(const Out& out, int64 row, Row about, const Sums& sums, const Shares& shares) {
  if (out.noticed) {
    if (!(sums.scaled >= 0.5f && sums.scaled < infinity())) out.noticed[0] = 1;  // not valid
    if (about.peak >= 0.0f && about.peak < 1.01f) {  // three such rows may be probabilities
      if (row == 0) out.noticed[1] = 1;
      if (row == out.rows / 2) out.noticed[2] = 1;
      if (row == out.rows - 1) out.noticed[3] = 1;
    }
  }
  if (OUTPUT == 2) {
    out.confidence[row] = shares.scaled + shares.plain + shares.even;
    out.label[row] = sums.label;
    out.temperature[row] = about.temperature;
  }
}

#if STAGED
// A warp reads and writes its rows, which follow one another, in one piece; UNIT bytes at a time.
struct alignas(UNIT) Unit { unsigned char bytes[UNIT]; };

DEVICE void copy_piece(void* to, const void* from, int bytes) {
  const int whole = bytes / UNIT;
  for (int i = lane_of_warp(); i < whole; i += 32) ((Unit*)to)[i] = ((const Unit*)from)[i];
  for (int i = whole * UNIT + lane_of_warp(); i < bytes; i += 32) {
    ((unsigned char*)to)[i] = ((const unsigned char*)from)[i];
  }
}

KERNEL calibrate(const input_t* logits, Out out, int64 rows, Fitted fitted) {
  __shared__ Numbers numbers;
  alignas(16) __shared__ float stages[BLOCK_WARPS][ROWS_PER_WARP * CLASSES];
  keep(numbers, fitted);
  wait_for_block();
  float* stage = stages[warp_of_block()];
  const int mine = lane_of_warp() / LANES;
  const int64 step = (int64)block_count() * BLOCK_WARPS * ROWS_PER_WARP;
  int64 first = ((int64)block_index() * BLOCK_WARPS + warp_of_block()) * ROWS_PER_WARP;
  for (; first < rows; first += step) {
    const int here = (int)min((int64)ROWS_PER_WARP, rows - first);
    copy_piece(stage, logits + first * CLASSES, here * CLASSES * (int)sizeof(input_t));
    wait_for_warp();
    const input_t* row = (const input_t*)stage + mine * CLASSES;
    float v[SLOTS], plain[SLOTS];
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
      const int at = class_of(0, slot);
      v[slot] = at < CLASSES ? as_float(row[at]) : -infinity();
    }
    const Row about = first_pass(row, v, numbers);
    const Sums sums = second_pass(row, v, plain, about);
    const Shares shares = shares_of(sums, numbers);
    if (mine < here && place_in_team() == 0) write_row(out, first + mine, about, sums, shares);
    wait_for_warp();
    if (OUTPUT == 2) continue;
    results(v, plain, about, sums, shares);
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
      const int at = class_of(0, slot);
      if (at < CLASSES) stage[mine * CLASSES + at] = v[slot];
    }
    wait_for_warp();
    copy_piece(out.values + first * CLASSES, stage, here * CLASSES * (int)sizeof(float));
    wait_for_warp();
  }
}
#else

DEVICE void write_values(float* row, int chunk, const float (&v)[SLOTS]) {
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    const int first = class_of(chunk, part * VEC);
    if (first >= CLASSES) continue;
    store<VEC>(row + first, &v[part * VEC]);
  }
}

KERNEL calibrate(const input_t* logits, Out out, int64 rows, Fitted fitted) {
  __shared__ Numbers numbers;
  keep(numbers, fitted);
  wait_for_block();
  const int64 step = (int64)block_count() * (THREADS / TEAM);
  int64 index = (int64)block_index() * (THREADS / TEAM) + thread_index() / TEAM;
#if AHEAD
  __shared__ NextRow next;
  if (index < rows) next.begin(logits + index * CLASSES);
#endif
  for (; index < rows; index += step) {
    const input_t* row = logits + index * CLASSES;
    float v[SLOTS], plain[SLOTS];
#if AHEAD
    next.take(v);
    if (index + step < rows) next.begin(row + step * CLASSES);
#else
    if (CHUNKS == 1) read_row(row, 0, v);
#endif
    const Row about = first_pass(row, v, numbers);
    const Sums sums = second_pass(row, v, plain, about);
    const Shares shares = shares_of(sums, numbers);
    if (place_in_team() == 0) write_row(out, index, about, sums, shares);
    if (OUTPUT == 2) continue;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      if (CHUNKS > 1) read_row(row, chunk, v);
      results(v, plain, about, sums, shares);
      write_values(out.values + index * CLASSES, chunk, v);
    }
  }
}
#endif
