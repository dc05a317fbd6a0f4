// memory_access: the memory that an operation reads and writes, as reported by the meta device. The
// check of a model uses it (parallel/train/checks/model_check.hpp). Addresses are compared, never
// dereferenced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <parallel/core/error.hpp>

namespace parallel::meta {

/// The access to bytes [begin, end) of one argument. begin is 0 if the view is not bound to memory.
struct memory_access {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t elements = 0;
  std::size_t element_bytes = 0;
  bool reads = false;
  bool writes = false;
  bool is_numeric = true;  ///< rather than token ids, labels or flags

  /// Whether the view is bound to memory. No system maps memory in the first page, so a smaller
  /// address belongs to a parameter that is not bound, or to a slice of one.
  [[nodiscard]] bool is_bound() const { return elements == 0 || begin >= 4096; }
};

/// An argument that an operation both reads and writes, such as one that it adds to.
template <class View>
struct updated {
  View view;
};
/// Marks an argument that an operation both reads and writes.
template <class View>
[[nodiscard]] updated<View> updates(View view) {
  return {view};
}

/// The kind of an exchange along an axis.
enum class exchange_kind : std::uint8_t { all_gather, reduce_scatter, all_reduce, other };

/// An operation on the meta device, with the floating-point operations that it would compute and
/// the accesses to its arguments.
struct observed_operation {
  std::string_view name;  ///< as in profiles; empty for one that a program defines itself
  std::uint64_t flops = 0;
  std::span<memory_access const> arguments;
};

/// Receives the operations, exchanges and random numbers of a meta stream.
class access_observer {
 public:
  virtual void operation(observed_operation const& operation) = 0;
  /// `is_shift`: the bytes go to one other rank, while later operations may run.
  virtual void traffic(std::string_view /*axis*/, std::uint64_t /*bytes*/, bool /*is_shift*/) {}
  virtual void exchange(std::string_view axis, exchange_kind kind, memory_access out,
                        memory_access in) = 0;
  /// A pass takes the random numbers of `operation` (context::random).
  virtual void random_numbers(std::uint32_t /*operation*/) {}

 protected:
  ~access_observer() = default;
};

namespace detail {

template <class T>
[[nodiscard]] memory_access elements_at(T* data, std::size_t count, std::size_t reach) {
  using value = std::remove_cv_t<T>;
  auto const begin = reinterpret_cast<std::uintptr_t>(data);
  return {
      .begin = begin,
      .end = begin + reach * sizeof(T),
      .elements = count,
      .element_bytes = sizeof(T),
      .reads = std::is_const_v<T>,
      .writes = !std::is_const_v<T>,
      .is_numeric = !std::is_same_v<value, std::int32_t> && !std::is_same_v<value, std::uint8_t>};
}

}  // namespace detail

/// The access to a span, tensor_view, rows_view or heads_view: const elements are read, others are
/// written. The gaps between strided rows are included.
template <class View>
[[nodiscard]] memory_access access_of(View const& view) {
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
[[nodiscard]] inline memory_access access_of(memory_access const& access) { return access; }
template <class View>
[[nodiscard]] memory_access access_of(updated<View> const& argument) {
  auto out = access_of(argument.view);
  out.reads = true;
  return out;
}

/// Makes the compiler compute `value`, which nothing uses where nothing is calculated: a pass that
/// reads elements itself to compute it must fault while it is planned, also if it is optimised.
template <class Value>
void require_computed(Value const& value) {
  asm volatile("" : : "m"(value));
}

/// Throws if one of the views is not bound to memory. Called before host code computes with them.
template <class... Views>
void require_bound(Views const&... views) {
  for (memory_access const& access : {memory_access{}, access_of(views)...})
    require(access.is_bound(), "an operation computes with ", access.elements,
            " elements that are bound ",
            "to nothing, as those of a parameter are that its layer's visit_parameters does not ",
            "show");
}

}  // namespace parallel::meta
