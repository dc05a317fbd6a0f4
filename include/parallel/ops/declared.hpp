// has_operations: whether the operations of a stream's device are declared. Devices' headers do not
// bring them, so that programs include those of the devices they use.
#pragma once

#include <span>

#include <parallel/ops/elementwise.hpp>

namespace parallel::ops {

/// Of elements T; `fill`, which everything that trains uses, stands for all.
template <class Stream, class T>
concept has_operations = requires(Stream& s, fill_arguments<T> const& a) {
  run_operation(s, a);
};

/// What stands in for something that computes where they are not: one sentence.
template <class Result, class Stream, class T>
[[nodiscard]] Result not_declared() {
  static_assert(has_operations<Stream, T>,
                "the operations of this device are not declared; include them: "
                "<parallel/ops/host.hpp> for the host, <parallel/ops/cuda.hpp> for a GPU");
  return {};
}

}  // namespace parallel::ops
