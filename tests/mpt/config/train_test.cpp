// Tests of values that depend on the number of ranks or on the data: batch split and clock.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/train.hpp>

namespace train_test {

TEST_CASE("split_batch: divides a global batch among ranks and into microbatches") {
  mpt::train_config config;
  config.data.global_train_batch_size = 24;
  config.data.device_train_microbatch_size = 5;
  auto const split = mpt::split_batch(config.data, config.execution, 2);
  CHECK(split.device_batch == 12);
  CHECK(split.microbatch == 5);
  CHECK(split.accumulation == 3);  // 5, 5, 2
  config.data.device_train_microbatch_size = 100;
  CHECK(mpt::split_batch(config.data, config.execution, 3).microbatch == 8);
  config.data.device_train_microbatch_size.reset();
  CHECK(mpt::split_batch(config.data, config.execution, 3).accumulation == 8);
  CHECK(mpt::split_batch(config.data, config.execution, 3, 4).accumulation == 2);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(mpt::split_batch(config.data, config.execution, 32)),
      "global_train_batch_size 24 is less than a sequence for each of 32 ranks; use 32 or more, or "
      "at most 24 ranks that read data",
      parallel::error);
}

TEST_CASE("split_batch: with a remainder the first ranks take one sequence more") {
  mpt::train_config config;
  config.data.global_train_batch_size = 23;  // sequences of 5 ranks: 5, 5, 5, 4 and 4
  using remainders = std::vector<std::int64_t>;
  auto const split = [&](std::int64_t microbatch, std::int64_t ranks = 5) {
    config.data.device_train_microbatch_size = microbatch;
    return mpt::split_batch(config.data, config.execution, ranks);
  };
  CHECK(split(1).device_batch == 5);
  CHECK(split(1).accumulation == 5);
  CHECK(split(1).remainders == remainders{});
  CHECK(split(2).remainders == remainders{1});     // 2 2 1, or 2 2
  CHECK(split(3).remainders == remainders{2, 1});  // 3 2, or 3 1
  CHECK(split(4).remainders == remainders{1});
  CHECK(split(4).accumulation == 2);
  CHECK(split(9).microbatch == 5);
  CHECK(split(9).remainders == remainders{4});  // 5, or 4
  CHECK(split(1, 23).device_batch == 1);
  std::int64_t end = 0;
  for (std::int64_t rank = 0; rank < 5; ++rank) {
    auto const share = mpt::share_of(config.data, config.execution, rank, 5);
    CHECK(share.begin == end);
    end = share.end;
  }
  CHECK(end == 23);
}

TEST_CASE("split_batch: in the canonical order microbatches do not depend on the number of ranks") {
  mpt::train_config config;
  config.execution.reduction_order = parallel::zero::reduction_order::canonical_tree;
  config.data.global_train_batch_size = 23;
  config.data.device_train_microbatch_size = 4;  // 5 microbatches of 4, and one of 3
  for (std::int64_t const ranks : {1, 2, 3, 4, 5, 6, 9}) {
    CAPTURE(ranks);
    auto const split = mpt::split_batch(config.data, config.execution, ranks);
    CHECK(split.microbatch == 4);
    CHECK(split.remainders == std::vector<std::int64_t>{3});
    CHECK(split.accumulation == (ranks == 1 ? 6 : ranks == 2 ? 4 : ranks < 6 ? 2 : 1));
    std::int64_t end = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      auto const share = mpt::share_of(config.data, config.execution, rank, ranks);
      CHECK(share.begin == end);
      CHECK(share.size() <= split.device_batch);
      CHECK((share.begin % 4 == 0 || share.size() == 0));
      end = share.end;
    }
    CHECK(end == 23);
  }
  config.data.device_train_microbatch_size = 100;
  CHECK(mpt::split_batch(config.data, config.execution, 4).microbatch == 23);
  CHECK(mpt::split_batch(config.data, config.execution, 4).remainders.empty());
}

TEST_CASE("clock_of: counts tokens, and cuts an epoch to the subset") {
  mpt::train_config config;
  config.data.global_train_batch_size = 8;
  config.data.train_loader.max_seq_len = 128;
  config.run.max_duration = mpt::parse_time("2ep");
  auto clock = mpt::clock_of(config.data, config.run, 50);
  CHECK(clock.tokens_per_batch == 1024);
  CHECK(mpt::total_batches(clock) == 100);
  config.data.train_subset_num_batches = 10;
  CHECK(mpt::total_batches(mpt::clock_of(config.data, config.run, 50)) == 20);
  CHECK(mpt::clock_of(config.data, config.run).batches_per_epoch == 0);
}

}  // namespace train_test
