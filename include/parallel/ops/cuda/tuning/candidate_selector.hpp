// candidate_selector: selects one of several candidates that do the same work: the first that runs,
// or the best of the first few that follow it. A source yields the candidates one after the other.
// A vendor's library may propose a candidate that its own driver then refuses, and its first
// proposal need not be the fastest.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// Each call of `Source` returns a pointer to the next candidate, or null after the last.
template <class Source>
class candidate_selector {
 public:
  explicit candidate_selector(Source source) : source_(std::move(source)) {}

  /// Calls run(candidate), which returns whether the candidate worked, for one candidate after the
  /// other until one works. Later calls run that candidate, also if it has failed since. Returns
  /// false when no candidate works, now and in all later calls.
  template <class Run>
  [[nodiscard]] bool operator()(Run const& run) {
    if (has_selected_) return run(*selected_);
    while (!has_selected_ && (selected_ = source_())) has_selected_ = run(*selected_);
    return has_selected_;
  }

  [[nodiscard]] bool has_selected() const { return has_selected_; }
  [[nodiscard]] auto const& selected() const { return *selected_; }

  /// Chooses among the candidate that has worked (index 0) and the next ones, `max_count` in all.
  /// best(count, candidate_at) returns the index of the candidate to select; a negative index keeps
  /// the current one.
  template <class Best>
  void choose(int max_count, Best const& best) {
    std::vector<pointer> alternatives;
    for (int count = 1; count < max_count; ++count) {
      auto next = source_();
      if (!next) break;
      alternatives.push_back(std::move(next));
    }
    auto const candidate_at = [&](int i) -> auto const& {
      return i == 0 ? *selected_ : *alternatives[static_cast<std::size_t>(i - 1)];
    };
    int const best_index = best(1 + static_cast<int>(alternatives.size()), candidate_at);
    if (best_index > 0)
      selected_ = std::move(alternatives[static_cast<std::size_t>(best_index - 1)]);
  }

 private:
  using pointer = decltype(std::declval<Source&>()());

  Source source_;
  pointer selected_{};
  bool has_selected_ = false;
};

}  // namespace parallel::cuda
