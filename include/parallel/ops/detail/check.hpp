// Checks of shapes that the operations share. They run when an operation is called, on every device
// (also the meta device), so that a wrong shape is found before anything is enqueued. Cost: a
// comparison.
#pragma once

#include <string_view>
#include <type_traits>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::ops {

/// Elements of a view to which an operation writes its result.
template <class T>
concept writable = !std::is_const_v<T>;  // a result cannot go to a view of const elements

}  // namespace parallel::ops

namespace parallel::ops::detail {

/// Throws `error` unless two extents of an operation's arguments are equal.
template <class A, class B>
void require_equal(std::string_view operation, std::string_view name_a, A a,
                   std::string_view name_b, B b) {
  auto const first = static_cast<index>(a);
  auto const second = static_cast<index>(b);
  require(first == second, "ops::", operation, ": ", name_a, " is ", first, ", but ", name_b,
          " is ", second, "; the two must be the same");
}

/// Whether an operation has an addend. The extents {0, 0} mean none. Throws `error` if the addend
/// has other extents than the result.
[[nodiscard]] inline bool has_addend(std::string_view operation, shape<2> addend, shape<2> result) {
  if (addend == shape<2>{}) return false;
  require_equal(operation, "the number of rows of the addend", addend[0], "that of the result",
                result[0]);
  require_equal(operation, "the number of columns of the addend", addend[1], "that of the result",
                result[1]);
  return true;
}

}  // namespace parallel::ops::detail
