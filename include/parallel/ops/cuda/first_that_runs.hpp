// first_that_runs: of several ways to do the same work, found one after the other, the first that
// can in fact be run. A vendor's library may propose what its own driver then refuses.
#pragma once

#include <utility>

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

 private:
  Source source_;
  decltype(std::declval<Source&>()()) way_{};
  bool proven_ = false;
};

}  // namespace parallel::cuda
