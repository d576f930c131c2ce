// Rows of logits in the registers of a team of threads: reading, sums, the largest values.
//
// Specialised when compiled (`_layout.py`):
//   CLASSES   values in a row                 INPUT    0 float, 1 half, 2 bfloat16
//   THREADS   threads in a block              LANES    threads of a warp that share a row
//   WARPS     warps that share a row          CHUNKS   parts of a row, read one after the other
//   VEC       values that a thread reads at once
//   RESIDENT  blocks that must fit on a processor at once: bounds the registers of a thread
//   SLOTS     values of one part that a thread holds; SLOTS = 0 mod VEC
//   AHEAD     whether the next row is read, into shared memory, during the work on this one
//   STAGED    whether short rows pass through shared memory, to be read and written in one piece
//   TOP       how many of the largest values are asked for
// A row is held by LANES < 32 neighbours in a warp, by one warp, or by all WARPS of a block. Slots
// beyond the last class are -inf, like masked classes.

#define TEAM (LANES * WARPS)
#define PARTS (SLOTS / VEC)
#define ROWS_PER_WARP (32 / LANES)
#define BLOCK_WARPS (THREADS / 32)

#if INPUT == 0
typedef float input_t;
DEVICE float as_float(input_t x) { return x; }
#elif INPUT == 1
typedef unsigned short input_t;
DEVICE float as_float(input_t x) { return from_half(x); }
#else
typedef unsigned short input_t;
DEVICE float as_float(input_t x) { return from_bfloat(x); }
#endif

struct alignas(sizeof(input_t) * VEC) Inputs { input_t at[VEC]; };

// --- where a thread stands -------------------------------------------------------------------

DEVICE int lane_of_warp() { return thread_index() % 32; }
DEVICE int warp_of_block() { return thread_index() / 32; }
DEVICE int place_in_team() { return WARPS > 1 ? thread_index() : thread_index() % LANES; }

// the class that a slot holds; CLASSES or more where there is none
DEVICE int class_of(int chunk, int slot) {
  return ((chunk * PARTS + slot / VEC) * TEAM + place_in_team()) * VEC + slot % VEC;
}

// --- reading ---------------------------------------------------------------------------------

DEVICE void as_values(const Inputs (&raw)[PARTS], int chunk, float (&v)[SLOTS]) {
#pragma unroll
  for (int slot = 0; slot < SLOTS; ++slot) {
    const bool there = class_of(chunk, slot) < CLASSES;
    v[slot] = there ? as_float(raw[slot / VEC].at[slot % VEC]) : -infinity();
  }
}

DEVICE void read_row(const input_t* row, int chunk, float (&v)[SLOTS]) {
  Inputs raw[PARTS];
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {  // all loads before the first use
    const int first = class_of(chunk, part * VEC);
    if (first < CLASSES) raw[part] = *reinterpret_cast<const Inputs*>(row + first);
  }
  as_values(raw, chunk, v);
}

#if AHEAD
// A thread's share of the next row, on its way to shared memory while the thread works on this one.
struct NextRow {
  Inputs shares[PARTS][THREADS];

  DEVICE void begin(const input_t* row) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const int first = class_of(0, part * VEC);
      if (first < CLASSES) copy_ahead<sizeof(Inputs)>(&shares[part][thread_index()], row + first);
    }
  }

  DEVICE void take(float (&v)[SLOTS]) {
    wait_for_copies();
    Inputs raw[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) raw[part] = shares[part][thread_index()];
    as_values(raw, 0, v);
  }
};
#endif

// --- sums over a team ------------------------------------------------------------------------

struct Sum {
  static DEVICE float of(float a, float b) { return a + b; }
  static DEVICE float none() { return 0.0f; }
};
struct Largest {
  static DEVICE float of(float a, float b) { return fmaxf(a, b); }
  static DEVICE float none() { return -infinity(); }
};
struct Smallest {
  static DEVICE int of(int a, int b) { return min(a, b); }
  static DEVICE int none() { return CLASSES; }
};

template <typename Op, typename T> DEVICE T over_lanes(T x) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) x = Op::of(x, shuffle_xor(x, mask));
  return x;
}

template <typename Op, typename T> DEVICE T over_team(T x) {
  x = over_lanes<Op>(x);
  if (WARPS > 1) {
    __shared__ T parts[WARPS];
    if (lane_of_warp() == 0) parts[warp_of_block()] = x;
    wait_for_block();
    x = lane_of_warp() < WARPS ? parts[lane_of_warp()] : Op::none();
    x = over_lanes<Op>(x);
    wait_for_block();
  }
  return x;
}

template <int N> DEVICE float largest_slot(const float (&v)[N]) {
  float peak = v[0];
#pragma unroll
  for (int slot = 1; slot < N; ++slot) peak = fmaxf(peak, v[slot]);
  return peak;
}

// --- the largest values ----------------------------------------------------------------------
#ifdef TOP

DEVICE void order(float& larger, float& smaller) {
  const float x = larger, y = smaller;
  larger = fmaxf(x, y);
  smaller = fminf(x, y);
}

#if LANES < 32
// Short rows: every thread sorts its slots, then the lists of neighbours are merged in pairs.
// SORTED is TOP rounded up to a power of two; SORT and MERGE are networks of order(list[i],
// list[j]), MERGE for a list that falls and then rises.
DEVICE void find_top(const float (&v)[SLOTS], float (&top)[TOP]) {
  float list[SORTED > SLOTS ? SORTED : SLOTS];
#pragma unroll
  for (int i = 0; i < (SORTED > SLOTS ? SORTED : SLOTS); ++i) list[i] = i < SLOTS ? v[i] : -infinity();
  SORT
#pragma unroll
  for (int mask = 1; mask < LANES; mask *= 2) {
    float other[TOP];
#pragma unroll
    for (int i = 0; i < TOP; ++i) other[i] = shuffle_xor(list[i], mask);
#pragma unroll
    for (int i = SORTED - TOP; i < SORTED; ++i) {
      const float theirs = other[SORTED - 1 - i];
      list[i] = i < TOP ? fmaxf(list[i], theirs) : theirs;
    }
    MERGE
  }
#pragma unroll
  for (int i = 0; i < TOP; ++i) {  // where a row has fewer finite values, its smallest fills up
    top[i] = i > 0 && list[i] == -infinity() ? top[i - 1] : list[i];
  }
}
#else

// one value per lane, the largest to lane 0
DEVICE float sort_warp(float x) {
  const int lane = lane_of_warp();
#pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const float other = shuffle_xor(x, stride);
      const bool keeps_larger = ((lane & stride) == 0) == ((lane & size) == 0);
      x = keeps_larger ? fmaxf(x, other) : fminf(x, other);
    }
  }
  return x;
}

// one more value in a list that falls from lane to lane
DEVICE float with_value(float list, float x) {
  const float before = shuffle_up(list);
  return fmaxf(list, fminf(lane_of_warp() == 0 ? infinity() : before, x));
}

// A warp's largest values so far are a list: lane i holds the i-th of TOP. Of the values that a
// warp reads at once, TOP are not below the TOP-th largest of its lanes' maxima, the bar, and few
// lie above it: the maxima themselves and what shares a lane with them. These are put into the
// list; what is equal to the bar fills it up, however often it is there.
template <int N> DEVICE float with_values(float list, const float (&v)[N]) {
  float first = v[0], second = -infinity(), third = -infinity();  // of the lane
#pragma unroll
  for (int slot = 1; slot < N; ++slot) {
    const float below = fminf(first, v[slot]);
    first = fmaxf(first, v[slot]);
    third = fmaxf(third, fminf(second, below));
    second = fmaxf(second, below);
  }
  const float last = shuffle(list, TOP - 1);
  if (lanes_where(first > last) == 0) return list;
  const float sorted = sort_warp(first);
  const float bar = fmaxf(last, shuffle(sorted, TOP - 1));
  const bool empty = shuffle(list, 0) == -infinity();
  if (empty && lanes_where(third > bar) == 0) {  // the usual case
    list = sorted;
    for (unsigned above = lanes_where(second > bar); above != 0; above &= above - 1) {
      list = with_value(list, shuffle(second, lowest_bit(above)));
    }
    return list;
  }
#pragma unroll
  for (int slot = 0; slot < N; ++slot) {
    for (unsigned above = lanes_where(v[slot] > bar); above != 0; above &= above - 1) {
      list = with_value(list, shuffle(v[slot], lowest_bit(above)));
    }
  }
  return lane_of_warp() < TOP ? fmaxf(list, bar) : list;
}

// the lists of all warps of a block as one
DEVICE float joined_lists(float list) {
  constexpr int EACH = (WARPS * TOP + 31) / 32;
  __shared__ float lists[WARPS * TOP];
  const int lane = lane_of_warp();
  if (lane < TOP) lists[warp_of_block() * TOP + lane] = list;
  wait_for_block();
  float v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    v[i] = i * 32 + lane < WARPS * TOP ? lists[i * 32 + lane] : -infinity();
  }
  wait_for_block();
  return with_values(-infinity(), v);
}

// where a row has fewer finite values, its smallest one fills up
DEVICE float filled_up(float list) {
  const int finite = bits_of(lanes_where(lane_of_warp() < TOP && list > -infinity()));
  const float smallest = shuffle(list, max(finite - 1, 0));
  return lane_of_warp() < finite ? list : smallest;
}
#endif
#endif
