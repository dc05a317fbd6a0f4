#include <mpt/train/checkpoint/best_evaluation.hpp>

namespace mpt {

void best_evaluation::record_evaluation(std::int64_t batch, double loss) {
  batch_ = batch;
  last_ = loss;
}

bool best_evaluation::claim_best(std::int64_t batch) {
  bool const is_better = last_ && batch_ == batch && (!least_ || *last_ < *least_);
  if (is_better) least_ = last_;
  return is_better;
}

}  // namespace mpt
