// Different parts of a global batch have different summaries; empty microbatches have no position.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/train/checks/step_agreement.hpp>

namespace batch_summary_test {

using parallel::index;

struct counted_rows {
  using microbatch = index;
  index rows(index batch) const { return batch; }
};

auto summary(std::vector<index> const& batches, std::vector<index> const& first_sequences) {
  return parallel::train::summarise_batch<counted_rows>({}, batches, first_sequences);
}

TEST_CASE("batch summary: depends on the rows and positions of microbatches that are not empty") {
  auto const reference = summary({4, 4, 2}, {3, 5, 7});
  CHECK(reference.rows == 10);
  CHECK(reference.first_sequence == 3);
  CHECK(reference == summary({4, 4, 2}, {3, 5, 7}));
  CHECK(reference != summary({4, 2, 4}, {3, 5, 7}));
  CHECK(reference != summary({4, 4, 2}, {3, 7, 5}));
  CHECK(reference != summary({4, 4, 2}, {4, 5, 7}));
  CHECK(reference != summary({4, 4, 2}, {}));
  CHECK(reference != summary({4, 4, 2, 0}, {3, 5, 7, 0}));
  CHECK(summary({4, 0}, {3, 9}) == summary({4, 0}, {3, 0}));
  CHECK(summary({}, {}).rows == 0);
}

}  // namespace batch_summary_test
