// Checks of shapes shared by the operations. They run where an operation is called, on every device
// (the meta device too), so a wrong shape is found before anything was enqueued. Cost: a
// comparison.
#pragma once

#include <string_view>
#include <type_traits>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::ops {

/// Elements of a view that an operation writes its result to.
template <class T>
concept writable = !std::is_const_v<T>;  // a result cannot go to a view of const elements

}  // namespace parallel::ops

namespace parallel::ops::detail {

/// Throws `error` unless two extents of an operation's arguments agree.
template <class A, class B>
void same(std::string_view operation, std::string_view what_a, A a, std::string_view what_b, B b) {
  auto const first = static_cast<index>(a);
  auto const second = static_cast<index>(b);
  require(first == second, "ops::", operation, ": ", what_a, " is ", first, ", but ", what_b,
          " is ", second, "; the two must be the same");
}

/// Whether there is a matrix to add to an operation's result. None is of extents {0, 0}; throws
/// `error` when one has other extents than the result.
[[nodiscard]] inline bool adds(std::string_view operation, shape<2> addend, shape<2> result) {
  if (addend == shape<2>{}) return false;
  same(operation, "the number of rows of the addend", addend[0], "that of the result", result[0]);
  same(operation, "the number of columns of the addend", addend[1], "that of the result",
       result[1]);
  return true;
}

}  // namespace parallel::ops::detail
