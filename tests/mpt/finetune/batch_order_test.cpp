// Tests of batch_order: the examples of each batch, packed or not, and its errors.
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/batch_order.hpp>

namespace batch_order_test {

using mpt::finetune::batch_order;
using mpt::finetune::bin;

inline std::vector<std::uint32_t> random_lengths(std::size_t count) {
  std::mt19937 random(3);
  std::vector<std::uint32_t> out(count);
  for (auto& length : out) length = 1 + static_cast<std::uint32_t>(random() % 40);
  return out;
}

}  // namespace batch_order_test

TEST_CASE("batch order: without packing a row is one example, in order or shuffled each epoch") {
  using namespace batch_order_test;
  batch_order plain(random_lengths(10), {.rows = 4});
  CHECK(plain.batches_per_epoch() == 2);
  CHECK(plain.batch_rows(1)[0].examples == std::vector<std::size_t>{4});
  CHECK(plain.batch_rows(2) == plain.batch_rows(0));
  batch_order with_short_batch(random_lengths(10), {.rows = 4, .drop_last = false});
  CHECK(with_short_batch.batches_per_epoch() == 3);
  CHECK(with_short_batch.batch_rows(2).size() == 2);
  CHECK(with_short_batch.batch_rows(3).size() == 4);
  batch_order shuffled(random_lengths(10), {.rows = 5, .shuffle = true, .seed = 1});
  std::multiset<std::size_t> seen;
  for (std::size_t batch = 0; batch < 4; ++batch)
    for (auto const& row : shuffled.batch_rows(batch)) seen.insert(row.examples.at(0));
  for (std::size_t example = 0; example < 10; ++example) CHECK(seen.count(example) == 2);
  CHECK(shuffled.batch_rows(0) != shuffled.batch_rows(2));
  batch_order next_seed(random_lengths(10), {.rows = 5, .shuffle = true, .seed = 2});
  CHECK(shuffled.batch_rows(2) ==
        next_seed.batch_rows(0));  // orders depend on the sum of seed and epoch
}

TEST_CASE("batch order: a packed batch is the same after a resume, across epochs too") {
  using namespace batch_order_test;
  mpt::finetune::batch_order_options const options = {
      .rows = 4, .row_tokens = 40, .packing_ratio = 2.7, .shuffle = true, .seed = 5};
  batch_order forward(random_lengths(64), options);
  CHECK(forward.examples_per_batch() == 10);
  CHECK(forward.batches_per_epoch() == 6);
  std::vector<std::vector<bin>> batches;
  for (std::size_t batch = 0; batch < 20; ++batch) batches.push_back(forward.batch_rows(batch));
  CHECK(!forward.packer().leftover().empty());
  for (std::size_t const batch : {19, 7, 0, 13, 14, 5}) {
    batch_order resumed(random_lengths(64), options);
    CHECK(resumed.batch_rows(batch) == batches[batch]);
    CHECK(forward.batch_rows(batch) == batches[batch]);
  }
}

TEST_CASE("batch order: an epoch can be shortened, and an epoch without a batch is an error") {
  using namespace batch_order_test;
  batch_order short_epoch(random_lengths(20), {.rows = 4, .epoch_batches = 2});
  CHECK(short_epoch.batches_per_epoch() == 2);
  CHECK(short_epoch.batch_rows(2) == short_epoch.batch_rows(0));
  CHECK(
      data_test::message_of(
          [] { batch_order(random_lengths(9), {.rows = 4, .packing_ratio = 2.5}); }) ==
      "an epoch has 9 examples, fewer than one batch of 10 (4 rows times a packing ratio of 2.5); "
      "give more data or lower the batch size");
}

TEST_CASE("torch_permutation: permutations are those of PyTorch's randperm") {
  using mpt::finetune::torch_permutation;
  using numbers = std::vector<std::size_t>;
  // torch.randperm(n, generator=torch.Generator().manual_seed(seed))
  CHECK(torch_permutation(10, 0U) == numbers{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(torch_permutation(10, 1U) == numbers{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
  CHECK(torch_permutation(7, 9176U) == numbers{2, 5, 3, 6, 1, 0, 4});
  CHECK(torch_permutation(12, 4294967301U) == numbers{11, 0, 9, 6, 10, 3, 4, 5, 8, 7, 1, 2});
  auto const large = torch_permutation(100000, 17);
  CHECK(large[0] == 76559);
  CHECK(large[50000] == 94180);
  CHECK(large[99999] == 27659);
  CHECK(torch_permutation(0, 3).empty());
}
