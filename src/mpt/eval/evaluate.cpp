#include <mpt/eval/evaluate.hpp>

#include <cmath>

namespace mpt {

void unigram_counter::add(std::span<std::int32_t const> labels) {
  for (auto const label : labels)
    if (label >= 0) ++counts_[static_cast<std::size_t>(label)];
}

double unigram_counter::cross_entropy() const {
  double total = 0;
  double sum = 0;
  for (auto const count : counts_) {
    auto const n = static_cast<double>(count);
    total += n;
    if (count > 0) sum += n * std::log(n);
  }
  return total > 0 ? std::log(total) - sum / total : 0.0;
}

}  // namespace mpt
