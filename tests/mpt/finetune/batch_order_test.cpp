#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <random>
#include <set>
#include <vector>

namespace batch_order_test {

using mpt::finetune::batch_order;
using mpt::finetune::bin;

inline std::vector<std::uint32_t> lengths(std::size_t count) {
  std::mt19937 random(3);
  std::vector<std::uint32_t> out(count);
  for (auto& length : out) length = 1 + static_cast<std::uint32_t>(random() % 40);
  return out;
}

}  // namespace batch_order_test

TEST_CASE("without packing a row is one example, in order or shuffled anew each epoch") {
  using namespace batch_order_test;
  batch_order plain(lengths(10), {.rows = 4});
  CHECK(plain.batches_per_epoch() == 2);
  CHECK(plain.at(1)[0].examples == std::vector<std::size_t>{4});
  CHECK(plain.at(2) == plain.at(0));
  batch_order whole(lengths(10), {.rows = 4, .drop_last = false});
  CHECK(whole.batches_per_epoch() == 3);
  CHECK(whole.at(2).size() == 2);
  CHECK(whole.at(3).size() == 4);
  batch_order shuffled(lengths(10), {.rows = 5, .shuffle = true, .seed = 1});
  std::multiset<std::size_t> seen;
  for (std::size_t batch = 0; batch < 4; ++batch)
    for (auto const& row : shuffled.at(batch)) seen.insert(row.examples.at(0));
  for (std::size_t at = 0; at < 10; ++at) CHECK(seen.count(at) == 2);
  CHECK(shuffled.at(0) != shuffled.at(2));
  batch_order next(lengths(10), {.rows = 5, .shuffle = true, .seed = 2});
  CHECK(shuffled.at(2) == next.at(0));  // the seed and the epoch are added
}

TEST_CASE("a packed batch is the same however one comes to it, over epochs too") {
  using namespace batch_order_test;
  mpt::finetune::batch_order_options const options = {
      .rows = 4, .row_tokens = 40, .packing_ratio = 2.7, .shuffle = true, .seed = 5};
  batch_order forward(lengths(64), options);
  CHECK(forward.drawn() == 10);
  CHECK(forward.batches_per_epoch() == 6);
  std::vector<std::vector<bin>> batches;
  for (std::size_t batch = 0; batch < 20; ++batch) batches.push_back(forward.at(batch));
  CHECK(!forward.packer().leftover().empty());
  for (std::size_t const batch : {19, 7, 0, 13, 14, 5}) {
    batch_order resumed(lengths(64), options);
    CHECK(resumed.at(batch) == batches[batch]);
    CHECK(forward.at(batch) == batches[batch]);
  }
}

TEST_CASE("an epoch may be cut, and one without a batch is an error") {
  using namespace batch_order_test;
  batch_order cut(lengths(20), {.rows = 4, .epoch_batches = 2});
  CHECK(cut.batches_per_epoch() == 2);
  CHECK(cut.at(2) == cut.at(0));
  CHECK(data_test::message_of([] { batch_order(lengths(3), {.rows = 4}); }) ==
        "an epoch has 3 examples, fewer than one batch of 4 (4 rows); give more data or lower the "
        "batch size");
  CHECK(
      data_test::message_of([] { batch_order(lengths(9), {.rows = 4, .packing_ratio = 2.5}); }) ==
      "an epoch has 9 examples, fewer than one batch of 10 (4 rows times a packing ratio of 2.5); "
      "give more data or lower the batch size");
  CHECK(data_test::message_of([] { batch_order(lengths(9), {.rows = 4, .packing_ratio = 0.5}); }) ==
        "packing_ratio is 0.5; expected at least 1 (one example a row), or auto");
}
