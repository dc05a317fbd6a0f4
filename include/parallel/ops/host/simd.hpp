// SIMD without compiler flags: one kernel source is compiled for three instruction sets, one of
// which is chosen at run time. Consumers pass no -march.
//
// A kernel is written on `pack<float, Lanes>`, takes the number of float lanes as its argument and
// must be always_inline, as must every function it calls with packs:
//
//   simd::dispatch([=](auto lanes) __attribute__((always_inline)) {
//     constexpr int L = lanes;
//     for (index i = 0; i < n; i += L) {
//       auto const x = simd::load_partial<L>(in + i, n - i);
//       simd::store_partial(out + i, simd::fma(x, x, 1.0F), n - i);
//     }
//   });
//
// 16 lanes: AVX-512 (f, bw, vl, dq); 8: AVX2 with FMA; 4: SSE2, which every x86-64 has. Tails use
// the same vector code on zero-filled registers, so an element's result does not depend on where
// blocks begin; it may differ between instruction sets (FMA or not). Dispatch costs a few ns: call
// it once per block, not once per element. g++ keeps broadcast numbers in registers by
// -ftree-slp-vectorize, which -O2 includes from version 12 on; without it kernels are 10 times
// slower. x86-64 only; a port to another processor replaces this header.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::host::simd {

namespace detail {
template <class T, int Lanes>
struct vector_of {
  typedef T type __attribute__((vector_size(Lanes * sizeof(T))));  // `using` drops the attribute
};
}  // namespace detail

/// `Lanes` numbers in a register (or several). The copy constructor is user-provided on purpose: it
/// makes the ABI pass packs by address, the same for every instruction set, so that code that is
/// not yet inlined (-O0) is correct and g++ has no ABI to warn about. Inlining removes it.
template <class T, int Lanes>
struct pack {
  using value_type = T;
  using raw = typename detail::vector_of<T, Lanes>::type;
  using mask = pack<std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>, Lanes>;
  static constexpr int lanes = Lanes;

  raw v;

  pack() = default;
  [[gnu::always_inline]] pack(pack const& other) : v(other.v) {}
  [[gnu::always_inline]] explicit pack(raw const& value) : v(value) {}
  /// All lanes hold the same number.
  [[gnu::always_inline]] pack(T value)  // NOLINT(google-explicit-constructor): 2.0F * x
      : v(value - raw{}) {}             // not raw{} + value: that is an addition, since 0 + -0 is 0
  [[gnu::always_inline]] pack& operator=(pack const& other) {
    v = other.v;
    return *this;
  }
  ~pack() = default;

  [[gnu::always_inline]] friend pack operator+(pack const& a, pack const& b) {
    return pack(raw(a.v + b.v));
  }
  [[gnu::always_inline]] friend pack operator-(pack const& a, pack const& b) {
    return pack(raw(a.v - b.v));
  }
  [[gnu::always_inline]] friend pack operator-(pack const& a) { return pack(raw(-a.v)); }
  [[gnu::always_inline]] friend pack operator*(pack const& a, pack const& b) {
    return pack(raw(a.v * b.v));
  }
  [[gnu::always_inline]] friend pack operator/(pack const& a, pack const& b) {
    return pack(raw(a.v / b.v));
  }
  [[gnu::always_inline]] pack& operator+=(pack const& b) {
    v += b.v;
    return *this;
  }
  [[gnu::always_inline]] pack& operator*=(pack const& b) {
    v *= b.v;
    return *this;
  }
  /// Comparisons by lane: all bits of a lane are set where true.
  [[gnu::always_inline]] friend mask operator<(pack const& a, pack const& b) {
    return mask(typename mask::raw(a.v < b.v));
  }
  [[gnu::always_inline]] friend mask operator==(pack const& a, pack const& b) {
    return mask(typename mask::raw(a.v == b.v));
  }
};

/// Calls body(integral_constant 0), body(1), ... without a loop, because indices of arrays of
/// registers must be constants.
template <int... Index, class Body>
[[gnu::always_inline]] inline void unrolled(std::integer_sequence<int, Index...>,
                                            Body const& body) {
  (body(std::integral_constant<int, Index>{}), ...);
}

/// The argument of a kernel: its number of float lanes as a constant.
template <int Lanes>
using lanes_t = std::integral_constant<int, Lanes>;

/// a in lanes where the mask is set, else b.
template <class T, int Lanes>
[[gnu::always_inline]] inline pack<T, Lanes> select(typename pack<T, Lanes>::mask const& condition,
                                                    pack<T, Lanes> const& a,
                                                    std::type_identity_t<pack<T, Lanes>> const& b) {
  return pack<T, Lanes>(condition.v ? a.v : b.v);
}

/// a b + c, rounded once if the instruction set has FMA.
template <class T, int Lanes>
[[gnu::always_inline]] inline pack<T, Lanes> fma(pack<T, Lanes> const& a,
                                                 std::type_identity_t<pack<T, Lanes>> const& b,
                                                 std::type_identity_t<pack<T, Lanes>> const& c) {
  return pack<T, Lanes>(typename pack<T, Lanes>::raw(a.v * b.v + c.v));
}

/// The bits of x as another element type of the same size.
template <class To, class T, int Lanes>
[[gnu::always_inline]] inline pack<To, Lanes> bits_as(pack<T, Lanes> const& x) {
  return pack<To, Lanes>(reinterpret_cast<typename pack<To, Lanes>::raw>(x.v));
}

/// The maximum and minimum by lane; a NaN in `a` stays.
template <class T, int Lanes>
[[gnu::always_inline]] inline pack<T, Lanes> max(pack<T, Lanes> const& a,
                                                 std::type_identity_t<pack<T, Lanes>> const& b) {
  return pack<T, Lanes>(a.v < b.v ? b.v : a.v);
}
/// The minimum by lane; a NaN in `a` stays.
template <class T, int Lanes>
[[gnu::always_inline]] inline pack<T, Lanes> min(pack<T, Lanes> const& a,
                                                 std::type_identity_t<pack<T, Lanes>> const& b) {
  return pack<T, Lanes>(b.v < a.v ? b.v : a.v);
}

/// |x|, and |x| with the sign of s.
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> abs(pack<float, Lanes> const& x) {
  pack<std::uint32_t, Lanes> bits = bits_as<std::uint32_t>(x);
  bits.v &= 0x7fffffffU;
  return bits_as<float>(bits);
}
/// |x| with the sign of s.
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> copysign(pack<float, Lanes> const& x,
                                                          pack<float, Lanes> const& s) {
  pack<std::uint32_t, Lanes> bits = bits_as<std::uint32_t>(x);
  bits.v = (bits.v & 0x7fffffffU) | (bits_as<std::uint32_t>(s).v & 0x80000000U);
  return bits_as<float>(bits);
}

/// Loads `Lanes` elements from `from`, of any alignment, as floats (exact for bf16).
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> load(float const* from) {
  pack<float, Lanes> out;
  __builtin_memcpy(&out.v, from, sizeof out.v);
  return out;
}
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> load(bf16 const* from) {
  pack<std::uint16_t, Lanes> bits;
  __builtin_memcpy(&bits.v, from, sizeof bits.v);
  pack<std::uint32_t, Lanes> wide;
  wide.v = __builtin_convertvector(bits.v, typename pack<std::uint32_t, Lanes>::raw) << 16;
  return bits_as<float>(wide);
}

/// Stores the lanes of `x` to `to`. bf16 is rounded to nearest, ties to even, NaN stays NaN (as
/// `bf16(float)`).
template <int Lanes>
[[gnu::always_inline]] inline void store(float* to, pack<float, Lanes> const& x) {
  __builtin_memcpy(to, &x.v, sizeof x.v);
}
template <int Lanes>
[[gnu::always_inline]] inline void store(bf16* to, pack<float, Lanes> const& x) {
  using words = pack<std::uint32_t, Lanes>;
  words const word = bits_as<std::uint32_t>(x);
  words rounded;
  rounded.v = (word.v + 0x7fffU + ((word.v >> 16) & 1U)) >> 16;
  words const quiet(0x7fffU);
  pack<std::uint16_t, Lanes> bits;
  bits.v = __builtin_convertvector(x.v == x.v ? rounded.v : quiet.v,
                                   typename pack<std::uint16_t, Lanes>::raw);
  __builtin_memcpy(static_cast<void*>(to), &bits.v, sizeof bits.v);
}

/// Like `load`, but only the first `count` elements are read; the other lanes are zero.
template <int Lanes, class T>
[[gnu::always_inline]] inline pack<float, Lanes> load_partial(T const* from, index count) {
  if (count >= Lanes) return load<Lanes>(from);
  T tail[Lanes] = {};
  for (index i = 0; i < count; ++i) tail[i] = from[i];
  return load<Lanes>(tail);
}

/// Like `store`, but only the first `count` lanes are written.
template <class T, int Lanes>
[[gnu::always_inline]] inline void store_partial(T* to, pack<float, Lanes> const& x, index count) {
  if (count >= Lanes) return store(to, x);
  T tail[Lanes];
  store(tail, x);
  for (index i = 0; i < count; ++i) to[i] = tail[i];
}

/// The sum of all lanes, by halves: a fixed order for a fixed number of lanes.
template <class T, int Lanes>
[[gnu::always_inline]] inline T sum(pack<T, Lanes> const& x) {
  T part[Lanes];
  __builtin_memcpy(part, &x.v, sizeof x.v);
  for (int half = Lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

/// The greatest of all lanes that are not NaN.
template <class T, int Lanes>
[[gnu::always_inline]] inline T max_of(pack<T, Lanes> const& x) {
  T part[Lanes];
  __builtin_memcpy(part, &x.v, sizeof x.v);
  for (int half = Lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] = part[i] < part[i + half] ? part[i + half] : part[i];
  return part[0];
}

namespace detail {

template <class Kernel>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"), gnu::flatten, gnu::noinline]] void
run_avx512(Kernel const& kernel) {
  kernel(lanes_t<16>{});
}
template <class Kernel>
[[gnu::target("avx2,fma"), gnu::flatten, gnu::noinline]] void run_avx2(Kernel const& kernel) {
  kernel(lanes_t<8>{});
}
template <class Kernel>
[[gnu::flatten, gnu::noinline]] void run_baseline(Kernel const& kernel) {
  kernel(lanes_t<4>{});
}

}  // namespace detail

/// The number of lanes that `dispatch` chooses on this processor: 16, 8 or 4.
[[nodiscard]] inline int native_lanes() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return 16;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 4;
}

/// Runs `kernel(lanes_t<Lanes>{})` compiled for an instruction set with `lanes` (16, 8, or 4)
/// lanes, which the processor must have; tests use it for the narrower ones.
template <class Kernel>
void dispatch_to(int lanes, Kernel const& kernel) {
  if (lanes == 16) return detail::run_avx512(kernel);
  if (lanes == 8) return detail::run_avx2(kernel);
  return detail::run_baseline(kernel);
}

/// Runs `kernel(lanes_t<Lanes>{})` compiled for the best instruction set of this processor.
template <class Kernel>
void dispatch(Kernel const& kernel) {
  dispatch_to(native_lanes(), kernel);
}

}  // namespace parallel::host::simd
