// first_that_runs: the first of several ways to do the same work that runs, or the best of the
// first few; a source yields the ways one after the other. A vendor's library may propose a way
// that its own driver then refuses, and its first proposal need not be the fastest.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// Each call of `Source` returns a pointer to the next way, null after the last.
template <class Source>
class first_that_runs {
 public:
  explicit first_that_runs(Source source) : source_(std::move(source)) {}

  /// Calls run(way), which returns whether the way worked, for one way after the other until one
  /// works. That way is kept, and not replaced if it fails later. Returns false when none works,
  /// now and in all later calls.
  template <class Run>
  [[nodiscard]] bool operator()(Run const& run) {
    if (proven_) return run(*way_);
    while (!proven_ && (way_ = source_())) proven_ = run(*way_);
    return proven_;
  }

  /// Whether a way has worked.
  [[nodiscard]] bool proven() const { return proven_; }
  /// The way that has worked.
  [[nodiscard]] auto const& way() const { return *way_; }

  /// Chooses among the way that has worked (0) and the next ones, `max_count` in all: best(count,
  /// way_at) returns the index of the way to keep; a negative index keeps the current way.
  template <class Best>
  void choose(int max_count, Best const& best) {
    std::vector<pointer> alternatives;
    for (int count = 1; count < max_count; ++count) {
      auto next = source_();
      if (!next) break;
      alternatives.push_back(std::move(next));
    }
    auto const way_at = [&](int i) -> auto const& {
      return i == 0 ? *way_ : *alternatives[static_cast<std::size_t>(i - 1)];
    };
    int const best_index = best(1 + static_cast<int>(alternatives.size()), way_at);
    if (best_index > 0) way_ = std::move(alternatives[static_cast<std::size_t>(best_index - 1)]);
  }

 private:
  using pointer = decltype(std::declval<Source&>()());

  Source source_;
  pointer way_{};
  bool proven_ = false;
};

}  // namespace parallel::cuda
