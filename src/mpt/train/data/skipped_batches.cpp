#include <mpt/train/data/skipped_batches.hpp>

#include <algorithm>

#include <parallel/core/failures.hpp>

namespace mpt {

std::string skipped_batches::add(std::int64_t first, std::int64_t last, std::string const& reason) {
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
  return parallel::concat(prefix, "the run goes back to batch ", first - 1, "; the batches from ",
                          first, " are skipped");
}

std::int64_t skipped_batches::count() const {
  std::int64_t out = 0;
  for (auto const& [first, last] : ranges_) out += last - first + 1;
  return out;
}

void skipped_batches::restore(nlohmann::json const& saved) {
  try {
    ranges_ = saved.get<std::vector<std::pair<std::int64_t, std::int64_t>>>();
  } catch (nlohmann::json::exception const&) {
    parallel::fail("the checkpoint's list of skipped batches is damaged; use another checkpoint");
  }
}

}  // namespace mpt
