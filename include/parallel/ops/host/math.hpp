// exp, erf and tanh on packs of floats: calls of libm do not vectorise.
//
// Each is a range reduction and a polynomial (Chebyshev interpolation of the remainder at 40
// digits). tests/parallel/ops/host/simd_test.cpp measures the errors against double precision, over
// floats of the stated range: exp 1 ulp, erf 2, tanh 1.5 (measured 0.98, 1.9, 1.3). NaN stays NaN.
// No tables, no branches: about 15, 40 and 30 instructions a pack.
#pragma once

#include <cstdint>

#include <parallel/ops/host/simd.hpp>

namespace parallel::host::simd {

/// e^x. Below -87.33 (where the result is not a normal number) 0, above 88.72 infinity.
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> exp(pack<float, Lanes> const& x) {
  using floats = pack<float, Lanes>;
  // x = n log 2 + r with |r| <= log(2)/2; adding 1.5 * 2^23 rounds to an integer, in the low bits
  floats const shifted = fma(x, 1.44269504088896F, 12582912.0F);
  floats const n = shifted - 12582912.0F;
  floats const high = fma(n, -0.693359375F, x);  // log 2 in two parts; the first product is exact
  floats const r = fma(n, 2.12194440e-4F, high);
  floats q = 1.392625083e-3F;
  q = fma(q, r, 8.363232884e-3F);
  q = fma(q, r, 4.166655421e-2F);
  q = fma(q, r, 1.666657667e-1F);
  q = fma(q, r, 0.5F);
  floats const power = fma(q, r * r, r) + 1.0F;
  // times 2^n: n is added to the exponent, which stays in range for every x not replaced below
  pack<std::uint32_t, Lanes> bits = bits_as<std::uint32_t>(power);
  bits.v += bits_as<std::uint32_t>(shifted).v << 23;
  floats y = bits_as<float>(bits);
  y = select(x < floats(-87.33654F), floats(0.0F), y);
  y = select(floats(88.72283F) < x, floats(__builtin_inff()), y);
  return select(x == x, y, x);
}

/// erf(x) = 2/sqrt(pi) * integral of e^(-t^2) from 0 to x.
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> erf(pack<float, Lanes> const& x) {
  using floats = pack<float, Lanes>;
  floats const size = abs(x);
  // below 1: x (1 + p(x^2))
  floats const square = x * x;
  floats p = 7.875875063e-5F;
  p = fma(p, square, -8.016864287e-4F);
  p = fma(p, square, 5.189087423e-3F);
  p = fma(p, square, -2.685421201e-2F);
  p = fma(p, square, 1.128359472e-1F);
  p = fma(p, square, -3.761262667e-1F);
  p = fma(p, square, 1.283791658e-1F);
  floats const small = fma(p, x, x);
  // above: 1 - exp(-q(|x|)), q = -log(erfc); from 3.92 on erf is 1 in float
  floats const clipped = min(size, floats(4.0F));
  floats q = 1.327236181e-5F;
  q = fma(q, clipped, -3.169370225e-4F);
  q = fma(q, clipped, 3.432351381e-3F);
  q = fma(q, clipped, -2.260477224e-2F);
  q = fma(q, clipped, 1.032811176e-1F);
  q = fma(q, clipped, 6.391412576e-1F);
  q = fma(q, clipped, 1.125893652F);
  q = fma(q, clipped, 7.658977797e-4F);
  floats const large = copysign(floats(1.0F) - exp(-q), x);
  return select(floats(1.0F) < size, large, small);
}

/// The hyperbolic tangent.
template <int Lanes>
[[gnu::always_inline]] inline pack<float, Lanes> tanh(pack<float, Lanes> const& x) {
  using floats = pack<float, Lanes>;
  floats const size = abs(x);
  // below 0.6: x (1 + x^2 p(x^2))
  floats const square = x * x;
  floats p = -6.26911972e-3F;
  p = fma(p, square, 2.111095905e-2F);
  p = fma(p, square, -5.387394885e-2F);
  p = fma(p, square, 1.333291537e-1F);
  p = fma(p, square, -3.333333033e-1F);
  floats const small = fma(p * square, size, size);
  floats const large = floats(1.0F) - floats(2.0F) / (exp(size + size) + 1.0F);
  return copysign(select(floats(0.6F) < size, large, small), x);
}

}  // namespace parallel::host::simd
