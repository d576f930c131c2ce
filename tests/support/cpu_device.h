// device.cuh on a CPU: the threads of a block are coroutines of one thread, which change over
// where threads of a GPU wait for each other. It finds what a GPU would compute, slowly.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

namespace {  // the emulator closes it: static variables of one library must not be another's

#define DEVICE inline
#define KERNEL void
#define __shared__ static

typedef long long int64;

template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }

// --- coroutines ------------------------------------------------------------------------------

const size_t STACK = 64 * 1024;

struct Thread {
  ucontext_t context;
  char* stack;
  bool done;
  long warp_waits, block_waits;
};

static Thread threads[THREADS];
static ucontext_t scheduler;
static int current, block, blocks;
static long warp_arrivals[THREADS / 32], block_arrivals;
static void (*body)();  // one thread of the kernel
static uint32_t exchanged[THREADS];

static void change_over() { swapcontext(&threads[current].context, &scheduler); }

static void start() {
  body();
  threads[current].done = true;
  change_over();
}

static void run_block() {
  block_arrivals = 0;
  memset(warp_arrivals, 0, sizeof(warp_arrivals));
  for (Thread& thread : threads) {
    if (!thread.stack) thread.stack = (char*)malloc(STACK);
    thread.done = false;
    thread.warp_waits = thread.block_waits = 0;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack;
    thread.context.uc_stack.ss_size = STACK;
    thread.context.uc_link = &scheduler;
    makecontext(&thread.context, start, 0);
  }
  for (bool running = true; running;) {
    running = false;
    for (current = 0; current < THREADS; ++current) {
      if (threads[current].done) continue;
      swapcontext(&scheduler, &threads[current].context);
      running |= !threads[current].done;
    }
  }
}

static void run_blocks(int count, void (*kernel)()) {
  blocks = count;
  body = kernel;
  for (block = 0; block < count; ++block) run_block();
}

// --- the instructions ------------------------------------------------------------------------

inline int thread_index() { return current; }
inline int block_index() { return block; }
inline int block_count() { return blocks; }

inline void wait_for_warp() {
  long& arrivals = warp_arrivals[current / 32];
  const long wanted = 32 * ++threads[current].warp_waits;
  for (++arrivals; arrivals < wanted;) change_over();
}

inline void wait_for_block() {
  const long wanted = THREADS * ++threads[current].block_waits;
  for (++block_arrivals; block_arrivals < wanted;) change_over();
}

template <typename T> T exchange(T x, int lane) {
  memcpy(&exchanged[current], &x, 4);
  wait_for_warp();
  memcpy(&x, &exchanged[current / 32 * 32 + lane], 4);
  wait_for_warp();
  return x;
}

inline float shuffle(float x, int lane) { return exchange(x, lane); }
inline float shuffle_up(float x) { return exchange(x, max(current % 32 - 1, 0)); }
inline float shuffle_xor(float x, int mask) { return exchange(x, current % 32 ^ mask); }
inline int shuffle_xor(int x, int mask) { return exchange(x, current % 32 ^ mask); }

inline unsigned lanes_where(bool condition) {
  exchanged[current] = condition;
  wait_for_warp();
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane) result |= exchanged[current / 32 * 32 + lane] << lane;
  wait_for_warp();
  return result;
}

inline int lowest_bit(unsigned mask) { return __builtin_ctz(mask); }
inline int bits_of(unsigned mask) { return __builtin_popcount(mask); }

inline float infinity() { return HUGE_VALF; }
inline float exp2_fast(float x) { return exp2f(x); }
inline float log_fast(float x) { return logf(x); }
inline float inverse_of(float x) { return 1.0f / x; }

inline float from_bits(uint32_t bits) {
  float y;
  memcpy(&y, &bits, 4);
  return y;
}
inline float from_bfloat(unsigned short bits) { return from_bits((uint32_t)bits << 16); }
inline float from_half(unsigned short bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | rest << 13);
  const float size = rest < 0x400 ? ldexpf((float)rest, -24) : from_bits((rest << 13) + 0x38000000);
  return sign ? -size : size;
}

template <int BYTES> void copy_ahead(void* to, const void* from) { memcpy(to, from, BYTES); }
inline void wait_for_copies() {}

template <int N> void store(float* place, const float* values) {
  memcpy(place, values, N * sizeof(float));
}
