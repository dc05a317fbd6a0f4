// All operations of a device, compared with the reference on aligned and unaligned arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <doctest/doctest.h>

#include "support/laws/attention_laws.hpp"
#include "support/laws/element_laws.hpp"
#include "support/laws/expert_laws.hpp"
#include "support/laws/row_laws.hpp"

namespace test {

/// Calls law(both sides) for arrays that are aligned and for arrays that are not.
template <class Device, class Law>
void for_each_alignment(Device& device, std::uint64_t seed, Law const& law) {
  MESSAGE("seed ", seed);
  for (std::size_t const offset : {0, 1}) {
    CAPTURE(offset);
    both_sides<Device> sides(device, seed, offset);
    law(sides);
  }
}

template <class T, class Device>
void check_element_operations(Device& device, std::uint64_t seed) {
  for_each_alignment(device, seed, [](auto& sides) {
    check_elementwise<T>(sides);
    check_reductions<T>(sides);
    if constexpr (!std::is_integral_v<T>) {
      check_casts(sides);
      check_activations<T>(sides);
      check_clip_dropout_softcap<T>(sides);
      check_exact_norm<T>(sides);
      check_rows<T>(sides);
      check_optimizers<T>(sides);
    }
  });
  if constexpr (!std::is_integral_v<T>) check_exact_sums<T>(device, seed);
}

template <class T, class Device>
void check_row_operations(Device& device, std::uint64_t seed) {
  for_each_alignment(device, seed, [](auto& sides) {
    check_biases<T>(sides);
    check_tables<T>(sides);
    check_products<T, T>(sides);
    check_affine<T>(sides);
    check_routing<T>(sides);
    check_experts<T>(sides);
    if constexpr (!std::is_integral_v<T>) {
      check_norms<T>(sides);
      check_positions_of_heads<T>(sides);
      check_cross_entropies<T, accumulate_t<T>>(sides);
      if constexpr (sizeof(T) == 2) {
        check_products<float, T>(sides);
        check_cross_entropies<T, T>(sides);
      }
    }
  });
}

template <class T, class Device>
void check_attention_operations(Device& device, std::uint64_t seed) {
  for_each_alignment(device, seed, [](auto& sides) {
    check_attention<T>(sides);
    check_extended_attention<T>(sides);
  });
}

}  // namespace test
