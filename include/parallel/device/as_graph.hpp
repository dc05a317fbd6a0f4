// as_graph: a stretch of enqueueing that a device may run as one piece.
#pragma once

#include <compare>
#include <optional>
#include <type_traits>
#include <utility>

#include <parallel/core/tensor.hpp>

namespace parallel {

/// What tells the stretches of a stream apart. Stretches with equal keys enqueue the same
/// operations on operands of the same sizes, which may lie elsewhere.
struct graph_key {
  index part = 0;      // of a model
  int pass = 0;        // of that part
  index rows = 0;      // of what passes
  bool fresh = false;  // gradients are replaced
  friend auto operator<=>(graph_key const&, graph_key const&) = default;
};

/// work(), and what it returns. It enqueues on `s`, and on no other stream, and waits for nothing;
/// a stream with graphs, which has run_as_graph(key, work), may run what it enqueues as one.
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

}  // namespace parallel
