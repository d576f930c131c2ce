// The instructions that rows.cuh, calibrate.cu and profile.cu are written in. The tests put
// another file in the place of this one, which does the same on a CPU.

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
#define EVERY_LANE 0xffffffffu

typedef long long int64;

DEVICE float infinity() { return __int_as_float(0x7f800000); }

// 2^x, to 2 units in the last place; denormal results are 0
DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// the natural logarithm, to 1e-7 of the larger of 1 and itself
DEVICE float log_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y * 0.6931471805599453f;
}

// 1 / x, to 1 unit in the last place
DEVICE float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float from_half(unsigned short bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}

DEVICE float from_bfloat(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int block_index() { return blockIdx.x; }
DEVICE int block_count() { return gridDim.x; }

DEVICE float shuffle(float x, int lane) { return __shfl_sync(EVERY_LANE, x, lane); }
DEVICE float shuffle_up(float x) { return __shfl_up_sync(EVERY_LANE, x, 1); }
DEVICE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(EVERY_LANE, x, mask); }
DEVICE int shuffle_xor(int x, int mask) { return __shfl_xor_sync(EVERY_LANE, x, mask); }
DEVICE unsigned lanes_where(bool condition) { return __ballot_sync(EVERY_LANE, condition); }
DEVICE void wait_for_warp() { __syncwarp(); }
DEVICE void wait_for_block() { __syncthreads(); }
DEVICE int lowest_bit(unsigned mask) { return __ffs(mask) - 1; }
DEVICE int bits_of(unsigned mask) { return __popc(mask); }

// Copies to shared memory that go on while the thread works on; only this thread may wait for them.
template <int BYTES> DEVICE void copy_ahead(void* to, const void* from) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(BYTES));
  }
}
DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Results are written past the caches, where logits that are read again should stay.
template <int N> DEVICE void store(float* place, const float* values) {
  if (N == 4) __stcs((float4*)place, make_float4(values[0], values[1], values[2], values[3]));
  if (N == 2) __stcs((float2*)place, make_float2(values[0], values[1]));
  if (N == 1) __stcs(place, values[0]);
}
