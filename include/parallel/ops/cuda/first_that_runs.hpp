// first_that_runs: of several ways to do the same work, found one after the other, the first that
// can in fact be run, or the best of the first few. A vendor's library may propose what its own
// driver then refuses, and what it proposes first need not be the fastest.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// `Source` gives a pointer to the next way whenever it is called, null after the last.
template <class Source>
class first_that_runs {
 public:
  explicit first_that_runs(Source source) : source_(std::move(source)) {}

  /// run(way), which says whether it worked, for one way after the other until one has: that one is
  /// kept, and not replaced should it fail later. False when none works, then and ever after.
  template <class Run>
  [[nodiscard]] bool operator()(Run const& run) {
    if (proven_) return run(*way_);
    while (!proven_ && (way_ = source_())) proven_ = run(*way_);
    return proven_;
  }

  /// Whether a way has worked.
  [[nodiscard]] bool proven() const { return proven_; }
  /// That one.
  [[nodiscard]] auto const& way() const { return *way_; }

  /// After a way has worked: best(count, way_at) says which of it (0) and of those that come next
  /// is kept, of `most` in all; negative: the one that there is.
  template <class Best>
  void choose(int most, Best const& best) {
    std::vector<pointer> others;
    for (int count = 1; count < most; ++count) {
      auto next = source_();
      if (!next) break;
      others.push_back(std::move(next));
    }
    auto const at = [&](int i) -> auto const& {
      return i == 0 ? *way_ : *others[static_cast<std::size_t>(i - 1)];
    };
    int const kept = best(1 + static_cast<int>(others.size()), at);
    if (kept > 0) way_ = std::move(others[static_cast<std::size_t>(kept - 1)]);
  }

 private:
  using pointer = decltype(std::declval<Source&>()());

  Source source_;
  pointer way_{};
  bool proven_ = false;
};

}  // namespace parallel::cuda
