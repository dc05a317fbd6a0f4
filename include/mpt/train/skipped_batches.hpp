// skipped_batches: the batches whose data left no trace in the parameters, since their loss or
// gradient was not finite (on_not_finite) or a spike (spike_check). Every later checkpoint lists
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/failures.hpp>

namespace mpt {

class skipped_batches {
 public:
  /// After this many refused batches in a row the run ends.
  static constexpr std::int64_t max_consecutive = 10;

  /// Adds the batches from `first` to `last`, counted from 1, of which the last was refused;
  /// `reason` is a clause. Returns a sentence about it. Throws after too many in a row.
  std::string add(std::int64_t first, std::int64_t last, std::string const& reason) {
    consecutive_ = last == last_ + 1 ? consecutive_ + 1 : 1;
    last_ = last;
    auto range_begin = first;  // first batch of the range joined with earlier ones
    for (; !ranges_.empty() && ranges_.back().second >= range_begin - 1; ranges_.pop_back())
      range_begin = std::min(range_begin, ranges_.back().first);
    ranges_.emplace_back(range_begin, last);
    if (consecutive_ >= max_consecutive)
      parallel::fail<parallel::diverged>(
          "batch ", last, ": ", reason, ", and ", consecutive_,
          " batches in a row would be skipped; lower the learning rate, or resume from an earlier "
          "checkpoint");
    auto const prefix = parallel::concat("batch ", last, ": ", reason, "; ");
    if (first == last) return prefix + "it is skipped";
    return parallel::concat(prefix, "back to batch ", first - 1, ", those from ", first,
                            " are skipped");
  }

  [[nodiscard]] bool empty() const { return ranges_.empty(); }

  /// The number of skipped batches.
  [[nodiscard]] std::int64_t count() const {
    std::int64_t out = 0;
    for (auto const& [first, last] : ranges_) out += last - first + 1;
    return out;
  }

  /// [[first, last], …]
  [[nodiscard]] nlohmann::json state() const { return ranges_; }
  /// Restores the state from a checkpoint's manifest.
  void restore(nlohmann::json const& saved) {
    try {
      ranges_ = saved.get<std::vector<std::pair<std::int64_t, std::int64_t>>>();
    } catch (nlohmann::json::exception const&) {
      parallel::fail("the checkpoint's list of skipped batches is damaged; use another checkpoint");
    }
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::int64_t last_ = -1;  // the last refused batch
  std::int64_t consecutive_ = 0;
};

}  // namespace mpt
