// custom: an operation that a layer defines itself as host code, a function of its operands.
#pragma once

#include <tuple>
#include <type_traits>

#include <parallel/device/meta/memory_access.hpp>

namespace parallel::ops {

/// Marks an operand of `custom` that the task adds to.
using meta::updates;

namespace detail {

/// What the task gets for an operand.
template <class Operand>
[[nodiscard]] Operand task_argument(Operand const& operand) {
  return operand;
}
template <class View>
[[nodiscard]] View task_argument(meta::updated<View> const& operand) {
  return operand.view;
}

/// The operand alone if it is a view, and nothing if it is a value.
template <class Operand>
[[nodiscard]] auto views_among(Operand const& operand) {
  if constexpr (
      requires { operand.view; } || requires { operand.data(); } || requires { operand.heads; } ||
      requires { operand.row_stride; }) {
    return std::tuple<Operand>(operand);
  } else {
    static_assert(std::is_trivially_copyable_v<Operand>,
                  "ops::custom: an operand is a view of an array, or a value such as a number");
    return std::tuple<>();
  }
}

/// Reports the views to a meta stream; for another one, checks that they are bound to memory.
template <class Stream, class... Views>
void note_views(Stream& s, std::tuple<Views...> const& all_views) {
  std::apply(
      [&](auto const&... views) {
        if constexpr (requires { s.touch(); })
          s.touch(views...);
        else
          meta::require_bound(views...);
      },
      all_views);
}

}  // namespace detail

/// custom(s, task, operands...): enqueues task(operands...), which reads the views of const
/// elements among the operands, writes the other views, and reads and writes those given as
/// updates(view). Numbers, and pointers to what has a value only when the task runs, are operands
/// too:
///
///     ops::custom(c.stream, [](auto y, auto x, float a) { ... }, y, x, 0.5F);
///
/// The task captures nothing (else it does not compile): a reference to a local variable would be
/// read after the function has returned, and an array that nobody names is seen by no check. On the
/// meta device nothing runs; the views are noted for the check of the model
/// (train/checks/model_check.hpp). This is for streams whose tasks are host code; a GPU needs a
/// kernel (docs/gpu.md). Throws `error` if a view is bound to no memory.
inline constexpr auto custom = []<class Stream, class Task, class... Operands>(
                                   Stream& s, Task task, Operands const&... operands) {
  static_assert(
      std::is_empty_v<Task>,
      "ops::custom: the task captures variables, or is a pointer to a function; let it be a lambda "
      "that captures nothing, and pass what it uses as operands: "
      "custom(stream, [](auto y, auto x) { ... }, y, x)");
  detail::note_views(s, std::tuple_cat(detail::views_among(operands)...));
  if constexpr (requires { s.touch(); })
    (meta::require_computed(operands), ...);
  else
    s.enqueue([task, arguments = std::tuple(detail::task_argument(operands)...)] {
      std::apply(task, arguments);
    });
};

}  // namespace parallel::ops
