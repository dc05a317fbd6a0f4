// tracker: a destination of a run's metrics outside of its process, such as a tracking server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mpt {

/// No call waits for the destination, except `finish` and `fail` for a bounded time. Destroyed
/// without them, the run has failed, and is marked so where that is quickly possible.
class tracker {
 public:
  tracker() = default;
  tracker(tracker&&) = delete;
  virtual ~tracker() = default;

  /// Takes the numbers and texts of batch `step` by name.
  virtual void log(std::int64_t step, nlohmann::ordered_json const& record) = 0;

  /// The messages for the user since the last call.
  [[nodiscard]] virtual std::vector<std::string> take_notes() = 0;

  /// The program has to end soon, as after a signal: `finish` waits for seconds at most.
  virtual void hurry() {}

  /// Ends the run at the destination; further notes may follow.
  virtual void finish() = 0;

  /// Ends the run at the destination as failed, and waits for seconds at most; further notes may
  /// follow. Without effect after `finish`.
  virtual void fail() = 0;
};

/// Opens the trackers of a run whose first batch to be reported is `first_batch`.
using tracker_opener =
    std::function<std::vector<std::unique_ptr<tracker>>(std::int64_t first_batch)>;

}  // namespace mpt
