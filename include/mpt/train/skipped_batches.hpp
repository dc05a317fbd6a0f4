// skipped_batches: whose data have left no trace in the parameters, since their loss or gradient
// was not finite (on_not_finite) or a spike (spike_check). They stand in every later checkpoint.
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
  /// So many in a row say that going on is of no use.
  static constexpr std::int64_t max_consecutive = 10;

  /// Adds the batches from `first` to `last`, counted from 1, of which the last was refused; `why`
  /// is a clause. Returns the sentence about it. Throws when that has happened too often in a row.
  std::string add(std::int64_t first, std::int64_t last, std::string const& why) {
    in_a_row_ = last == last_ + 1 ? in_a_row_ + 1 : 1;
    last_ = last;
    auto begin = first;  // of what joins those that were skipped before
    for (; !ranges_.empty() && ranges_.back().second >= begin - 1; ranges_.pop_back())
      begin = std::min(begin, ranges_.back().first);
    ranges_.emplace_back(begin, last);
    if (in_a_row_ >= max_consecutive)
      parallel::fail<parallel::diverged>(
          "batch ", last, ": ", why, ", and ", in_a_row_,
          " batches in a row would be skipped; lower the learning rate, or resume from an earlier "
          "checkpoint");
    auto const what = parallel::concat("batch ", last, ": ", why, "; ");
    if (first == last) return what + "it is skipped";
    return parallel::concat(what, "back to batch ", first - 1, ", those from ", first,
                            " are skipped");
  }

  [[nodiscard]] bool empty() const { return ranges_.empty(); }

  /// How many there are.
  [[nodiscard]] std::int64_t count() const {
    std::int64_t out = 0;
    for (auto const& [first, last] : ranges_) out += last - first + 1;
    return out;
  }

  /// [[first, last], …]
  [[nodiscard]] nlohmann::json state() const { return ranges_; }
  /// What comes from a checkpoint's manifest.
  void restore(nlohmann::json const& saved) {
    try {
      ranges_ = saved.get<std::vector<std::pair<std::int64_t, std::int64_t>>>();
    } catch (nlohmann::json::exception const&) {
      parallel::fail("the checkpoint's list of skipped batches is damaged; use another checkpoint");
    }
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::int64_t last_ = -1;  // the last that was refused
  std::int64_t in_a_row_ = 0;
};

}  // namespace mpt
