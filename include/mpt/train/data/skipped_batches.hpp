// skipped_batches: the batches whose data left no trace in the parameters, since their loss or
// gradient was not finite (on_not_finite) or a spike (spike_check). Every later checkpoint lists
// them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace mpt {

class skipped_batches {
 public:
  /// After this many refused batches in a row the run ends.
  static constexpr std::int64_t max_consecutive = 10;

  /// Adds the batches from `first` to `last`, counted from 1, of which the last was refused;
  /// `reason` is a clause. Returns a sentence about it. Throws after too many in a row.
  std::string add(std::int64_t first, std::int64_t last, std::string const& reason);

  [[nodiscard]] bool empty() const { return ranges_.empty(); }

  /// The number of skipped batches.
  [[nodiscard]] std::int64_t count() const;

  /// [[first, last], …]
  [[nodiscard]] nlohmann::json state() const { return ranges_; }
  /// Restores the state from a checkpoint's manifest.
  void restore(nlohmann::json const& saved);

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::int64_t last_ = -1;  // the last refused batch
  std::int64_t consecutive_ = 0;
};

}  // namespace mpt
