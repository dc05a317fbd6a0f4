// All operations that a device offers, held against the reference: aligned arrays and others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <doctest/doctest.h>

#include "support/attention_laws.hpp"
#include "support/element_laws.hpp"
#include "support/row_laws.hpp"

namespace test {

/// Calls law(both sides) for arrays that are aligned and for arrays that are not.
template <class Device, class Law>
void for_each_alignment(Device& device, std::uint64_t seed, Law const& law) {
  MESSAGE("seed ", seed);
  for (std::size_t const offset : {0, 1}) {
    CAPTURE(offset);
    both_sides<Device> both(device, seed, offset);
    law(both);
  }
}

template <class T, class Device>
void check_element_operations(Device& device, std::uint64_t seed) {
  for_each_alignment(device, seed, [](auto& both) {
    check_elementwise<T>(both);
    check_reductions<T>(both);
    if constexpr (!std::is_integral_v<T>) {
      check_casts(both);
      check_activations<T>(both);
      check_clip_dropout_softcap<T>(both);
      check_exact_norm<T>(both);
      check_rows<T>(both);
      check_optimizers<T>(both);
    }
  });
  if constexpr (!std::is_integral_v<T>) check_exact_sums<T>(device, seed);
}

template <class T, class Device>
void check_row_operations(Device& device, std::uint64_t seed) {
  for_each_alignment(device, seed, [](auto& both) {
    check_biases<T>(both);
    check_tables<T>(both);
    check_products<T, T>(both);
    check_affine<T>(both);
    if constexpr (!std::is_integral_v<T>) {
      check_norms<T>(both);
      check_positions_of_heads<T>(both);
      check_cross_entropies<T, accumulate_t<T>>(both);
      if constexpr (sizeof(T) == 2) {
        check_products<float, T>(both);
        check_cross_entropies<T, T>(both);
      }
    }
  });
}

template <class T, class Device>
void check_attention_operations(Device& device, std::uint64_t seed) {
  for_each_alignment(device, seed, [](auto& both) {
    check_attention<T>(both);
    check_extended_attention<T>(both);
  });
}

}  // namespace test
