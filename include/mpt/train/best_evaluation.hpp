// best_evaluation: which of a run's checkpoints has the least loss in evaluation.
#pragma once

#include <cstdint>
#include <optional>

namespace mpt {

class best_evaluation {
 public:
  /// After an evaluation behind batch `batch`.
  void record_evaluation(std::int64_t batch, double loss) {
    batch_ = batch;
    last_ = loss;
  }

  /// Before a checkpoint behind batch `batch`: whether it was evaluated and is the best so far,
  /// which it then stays until a better one.
  [[nodiscard]] bool claim_best(std::int64_t batch) {
    bool const better = last_ && batch_ == batch && (!least_ || *last_ < *least_);
    if (better) least_ = last_;
    return better;
  }

  /// The least loss of a checkpoint so far; none: none was evaluated.
  [[nodiscard]] std::optional<double> loss() const { return least_; }
  void restore(std::optional<double> loss) { least_ = loss; }

 private:
  std::int64_t batch_ = 0;
  std::optional<double> last_;
  std::optional<double> least_;
};

}  // namespace mpt
