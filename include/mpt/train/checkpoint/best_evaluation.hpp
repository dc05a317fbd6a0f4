// best_evaluation: finds the checkpoint of a run with the least evaluation loss.
#pragma once

#include <cstdint>
#include <optional>

namespace mpt {

class best_evaluation {
 public:
  /// Records the loss of an evaluation after batch `batch`.
  void record_evaluation(std::int64_t batch, double loss);

  /// Called before a checkpoint after batch `batch`: whether that batch was evaluated and has the
  /// least loss of all checkpoints so far. If so, later checkpoints are compared with it.
  [[nodiscard]] bool claim_best(std::int64_t batch);

  /// The least loss of a checkpoint so far; nothing where none was evaluated.
  [[nodiscard]] std::optional<double> loss() const { return least_; }
  void restore(std::optional<double> loss) { least_ = loss; }

 private:
  std::int64_t batch_ = 0;
  std::optional<double> last_;
  std::optional<double> least_;
};

}  // namespace mpt
