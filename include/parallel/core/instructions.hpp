// instructions: GPU instructions for which C++ has no name, and the equivalent for other code.
//
// The error bounds are those of NVIDIA's PTX manual. The two approximate instructions flush
// subnormal numbers (below 1e-38) to 0.
#pragma once

#include <cmath>
#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel {

/// The bits of the bf16 nearest to `value`, ties to even; 0x7fff for every NaN. GPU and host give
/// the same bits.
[[nodiscard]] PARALLELLM_HOST_DEVICE inline std::uint16_t nearest_bf16(float value) {
  std::uint16_t bits = 0;
  PARALLELLM_DEVICE_ELSE(
      asm("cvt.rn.bf16.f32 %0, %1;"
          : "=h"(bits)
          : "f"(value)),
      auto const word = __builtin_bit_cast(std::uint32_t, value);
      bits = static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U
                                            ? 0x7fffU
                                            : (word + 0x7fffU + (word >> 16 & 1U)) >> 16));
  return bits;
}

/// 2^x, within 2 units in the last place on a GPU.
[[nodiscard]] PARALLELLM_HOST_DEVICE inline float fast_exp2(float x) {
  float y = 0;
  PARALLELLM_DEVICE_ELSE(asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)), y = std::exp2(x));
  return y;
}

/// 1 / x, within 1 unit in the last place on a GPU.
[[nodiscard]] PARALLELLM_HOST_DEVICE inline float fast_reciprocal(float x) {
  float y = 0;
  PARALLELLM_DEVICE_ELSE(asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)), y = 1.0F / x);
  return y;
}

}  // namespace parallel
