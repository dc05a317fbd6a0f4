// softcap and its gradient on the host.
#pragma once

#include <parallel/ops/host/math.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/softcap.hpp>

namespace parallel::host {

[[nodiscard]] inline auto simd_form(in_packs, ops::capped_value const& f) {
  return [
    cap = static_cast<float>(f.options.cap),
    factor = static_cast<float>(f.options.scale / f.options.cap)
  ](auto lanes, auto const& x) __attribute__((always_inline)) {
    return simd::tanh(x * broadcast<lanes>(factor)) * broadcast<lanes>(cap);
  };
}

[[nodiscard]] inline auto simd_form(in_packs, ops::softcap_gradient const& f) {
  return [
    scale = static_cast<float>(f.options.scale), inverse = static_cast<float>(1 / f.options.cap)
  ](auto lanes, auto const& y, auto const& dy) __attribute__((always_inline)) {
    auto const share = y * broadcast<lanes>(inverse);
    return dy * ((broadcast<lanes>(1.0F) - share * share) * broadcast<lanes>(scale));
  };
}

}  // namespace parallel::host
