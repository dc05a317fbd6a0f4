// The places of a step's microbatches in the global batch.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/train/step/step_request.hpp>

#include "parallel/support/files.hpp"

namespace step_request_test {

using parallel::index;

/// Sequences of two rows; a microbatch is its number of rows.
struct two_rows {
  using microbatch = index;
  [[nodiscard]] index rows(index batch) const { return batch; }
  [[nodiscard]] index sequence(index) const { return 2; }
};

std::string refusal(std::vector<index> const& batches, std::vector<index> const& first) {
  return test::message_of([&] {
    parallel::train::require_first_sequences(two_rows{}, {batches, first});
  });
}

TEST_CASE("step request: microbatches have places in the global batch that do not overlap") {
  CHECK(refusal({4, 2, 4}, {0, 2, 3}).empty());
  CHECK(refusal({4, 4}, {6, 2}).empty());        // in another order
  CHECK(refusal({4, 0, 0}, {3, 0, 0}).empty());  // without rows
  CHECK(
      test::contains(refusal({4, 4}, {0}), "a step of 2 microbatches is given 1 first_sequences"));
  CHECK(test::contains(refusal({4}, {-1}), "first_sequences[0] is -1; the sequences"));
  CHECK(test::contains(refusal({4, 4}, {0, 0}), "microbatch 0 holds sequences 0 to 1 of the "));
  CHECK(test::contains(
      refusal({4, 2, 2}, {5, 7, 7}),
      "microbatch 1 holds sequences 7 to 7 of the global batch, and microbatch 2 begins with 7"));
}

}  // namespace step_request_test
