// group: neighbouring elements that a thread reads and writes at once, up to 16 bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include <parallel/core/config.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::cuda {

template <class T, unsigned N>
struct alignas(N * sizeof(T)) group {
  T value[N];
};

/// The number of elements that a thread reads at once from arrays of all these types: 16 bytes of
/// the widest, so that neighbouring threads always access neighbouring memory.
template <class... T>
inline constexpr unsigned group_size = std::min({pack_size<T>...});

/// Whether all pointers are aligned to groups of N elements.
template <unsigned N, class... T>
[[nodiscard]] PARALLELLM_HOST_DEVICE bool groupable(T const*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % (N * sizeof(T)) == 0) && ...);
}

/// Whether rows of `columns` elements at distance `stride` consist of aligned groups of N.
template <unsigned N, class T>
[[nodiscard]] PARALLELLM_HOST_DEVICE bool groupable_rows(T const* first, index columns,
                                                         index stride) {
  return groupable<N>(first) && columns % index{N} == 0 && stride % index{N} == 0;
}

/// Reads N adjacent elements by one access.
template <unsigned N, class T>
[[nodiscard]] PARALLELLM_DEVICE group<T, N> load_group(T const* from) {
  return *reinterpret_cast<group<T, N> const*>(from);
}
/// Writes N adjacent elements by one access.
template <class T, unsigned N>
PARALLELLM_DEVICE void store_group(T* to, group<T, N> const& values) {
  *reinterpret_cast<group<T, N>*>(to) = values;
}

/// to[i] += from[i].
template <class A, class T, unsigned N>
PARALLELLM_DEVICE void add_to(group<A, N>& to, group<T, N> const& from) {
  for (unsigned i = 0; i < N; ++i) to.value[i] += static_cast<A>(from.value[i]);
}

}  // namespace parallel::cuda
