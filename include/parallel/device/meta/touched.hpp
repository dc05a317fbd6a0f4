// touched: the memory that an operation on the meta device meets, for whoever wants to know what a
// pass reads and writes (parallel/train/model_check.hpp). Addresses are compared, never followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <parallel/core/error.hpp>

namespace parallel::meta {

/// Bytes [begin, end) of one argument; begin 0: a view of elements that is bound to nothing.
struct touched {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t elements = 0;
  bool reads = false;
  bool writes = false;
  bool numbers = true;  // rather than token ids, labels or flags

  /// Whether there is memory behind it. Below the first page no system gives any: there it is of a
  /// parameter that is bound to nothing, or a slice of one.
  [[nodiscard]] bool is_bound() const { return elements == 0 || begin >= 4096; }
};

/// An argument that is read and written: what an operation adds to.
template <class View>
struct updated {
  View view;
};
template <class View>
[[nodiscard]] updated<View> updates(View view) {
  return {view};
}

/// What becomes of the memory of an exchange along an axis.
enum class exchange_kind : std::uint8_t { all_gather, reduce_scatter, all_reduce, other };

/// Who is told.
class witness {
 public:
  virtual void operation(std::span<touched const> arguments) = 0;
  virtual void exchange(std::string_view axis, exchange_kind kind, touched out, touched in) = 0;

 protected:
  ~witness() = default;
};

namespace detail {

template <class T>
[[nodiscard]] touched elements_at(T* data, std::size_t count, std::size_t reach) {
  using value = std::remove_cv_t<T>;
  auto const begin = reinterpret_cast<std::uintptr_t>(data);
  return {.begin = begin,
          .end = begin + reach * sizeof(T),
          .elements = count,
          .reads = std::is_const_v<T>,
          .writes = !std::is_const_v<T>,
          .numbers = !std::is_same_v<value, std::int32_t> && !std::is_same_v<value, std::uint8_t>};
}

}  // namespace detail

/// Of a span, tensor_view, rows_view or heads_view: const elements are read, others written. What
/// lies between strided rows counts as touched.
template <class View>
[[nodiscard]] touched touch_of(View const& view) {
  auto const count = [](auto... extents) { return (static_cast<std::size_t>(extents) * ...); };
  if constexpr (requires { view.heads; }) {
    auto const elements = static_cast<std::size_t>(view.size());
    auto const rows = elements == 0
                          ? 0
                          : static_cast<std::size_t>((view.batch - 1) * view.batch_stride +
                                                     (view.sequence - 1) * view.row_stride +
                                                     view.heads * view.head_dim);
    return detail::elements_at(view.data, elements, rows);
  } else if constexpr (requires { view.row_stride; }) {
    auto const reach =
        view.rows == 0 ? 0
                       : static_cast<std::size_t>((view.rows - 1) * view.row_stride + view.columns);
    return detail::elements_at(view.data, count(view.rows, view.columns), reach);
  } else {
    auto const elements = static_cast<std::size_t>(view.size());
    return detail::elements_at(view.data(), elements, elements);
  }
}
[[nodiscard]] inline touched touch_of(touched const& known) { return known; }
template <class View>
[[nodiscard]] touched touch_of(updated<View> const& argument) {
  auto out = touch_of(argument.view);
  out.reads = true;
  return out;
}

/// Before host code computes with these views: throws where one is bound to nothing.
template <class... Views>
void require_bound(Views const&... views) {
  for (touched const& one : {touched{}, touch_of(views)...})
    require(one.is_bound(), "an operation computes with ", one.elements,
            " elements that are bound ",
            "to nothing, as those of a parameter are that its layer's visit_parameters does not ",
            "show");
}

}  // namespace parallel::meta
