// as_graph: a range of enqueued work that a device may launch as one graph.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <parallel/core/config.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel {

/// Identifies a range of work on a stream. Ranges with equal keys enqueue the same operations on
/// operands of the same sizes; the addresses may differ.
struct graph_key {
  index part = 0;                     ///< number of the model's part
  int pass = 0;                       ///< number of the part's pass
  index rows = 0;                     ///< rows of the activation
  bool overwrites_gradients = false;  ///< as context::overwrite_gradients
  friend auto operator<=>(graph_key const&, graph_key const&) = default;
};

/// Calls work() and returns its result. work() must enqueue on `s` only and must not wait. A stream
/// with a member run_as_graph(key, work) may launch the enqueued work as one graph.
template <class Stream, class Work>
auto as_graph(Stream& s, graph_key const& key, Work&& work) {
  using result = std::invoke_result_t<Work&>;
  if constexpr (!requires { s.run_as_graph(key, [] {}); }) {
    return work();
  } else if constexpr (std::is_void_v<result>) {
    s.run_as_graph(key, work);
  } else {
    std::optional<result> out;
    s.run_as_graph(key, [&] { out.emplace(work()); });
    return *std::move(out);
  }
}

namespace detail {
struct no_annotation {};
}  // namespace detail

/// Names the work that is enqueued on `s` while the result lives. `name()` returns a std::string
/// and is called only if the stream supports a profiler, by a member annotate(std::string const&).
template <class Stream, class Name>
[[nodiscard]] auto annotate(Stream& s, Name const& name) {
  if constexpr (requires { s.annotate(std::string()); })
    return s.annotate(name());
  else
    return detail::no_annotation{};
}

}  // namespace parallel
