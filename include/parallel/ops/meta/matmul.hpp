// matmul on the meta device: 2 m n k operations.
#pragma once

#include <cstdint>

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::meta {

template <class C, class T>
void matmul_impl(stream& s, matrix_view<C> c, matrix_view<T const> a, matrix_view<T const> b,
                 ops::matmul_options options, matrix_view<std::type_identity_t<C> const> addend) {
  if (options.accumulate && addend.data() == c.data())
    s.touch(updates(c), a, b, addend);
  else
    s.touch(c, a, b, addend);
  auto const depth = static_cast<std::uint64_t>(a.extent(options.transpose_a ? 0 : 1));
  s.count(2 * static_cast<std::uint64_t>(c.size()) * depth);
}

}  // namespace parallel::meta
