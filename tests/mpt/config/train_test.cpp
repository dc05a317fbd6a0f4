// Tests of what follows from a configuration once the number of ranks or the data is known.
#include <cstdint>

#include <doctest/doctest.h>

#include <mpt/config/train.hpp>

namespace train_test {

TEST_CASE("a global batch is shared equally and worked through in microbatches") {
  mpt::train_config config;
  config.global_train_batch_size = 24;
  config.device_train_microbatch_size = 5;
  auto const split = mpt::split_batch(config, 2);
  CHECK(split.device_batch == 12);
  CHECK(split.microbatch == 5);
  CHECK(split.accumulation == 3);  // 5, 5, 2
  config.device_train_microbatch_size = 100;
  CHECK(mpt::split_batch(config, 3).microbatch == 8);
  config.device_train_microbatch_size.reset();
  CHECK(mpt::split_batch(config, 3).accumulation == 8);
  CHECK(mpt::split_batch(config, 3, 4).accumulation == 2);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::split_batch(config, 5)),
                       "global_train_batch_size 24 cannot be shared equally by 5 ranks; use 20 or "
                       "25, or another number of ranks",
                       parallel::error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(mpt::split_batch(config, 32)),
      "global_train_batch_size 24 cannot be shared equally by 32 ranks; use 32, or "
      "another number of ranks",
      parallel::error);
}

TEST_CASE("in the canonical order microbatches are those of one rank, whatever ranks there are") {
  mpt::train_config config;
  config.reduction_order = parallel::zero::reduction_order::canonical_tree;
  config.global_train_batch_size = 23;
  config.device_train_microbatch_size = 4;  // 5 of 4, and one of 3
  for (std::int64_t const ranks : {1, 2, 3, 4, 5, 6, 9}) {
    CAPTURE(ranks);
    auto const split = mpt::split_batch(config, ranks);
    CHECK(split.microbatch == 4);
    CHECK(split.rest == 3);
    CHECK(split.accumulation == (ranks == 1 ? 6 : ranks == 2 ? 4 : ranks < 6 ? 2 : 1));
    std::int64_t end = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      auto const mine = mpt::share_of(config, rank, ranks);
      CHECK(mine.begin == end);
      CHECK(mine.size() <= split.device_batch);
      CHECK((mine.begin % 4 == 0 || mine.size() == 0));
      end = mine.end;
    }
    CHECK(end == 23);
  }
  config.device_train_microbatch_size = 100;
  CHECK(mpt::split_batch(config, 4).microbatch == 23);
  CHECK(mpt::split_batch(config, 4).rest == 0);
}

TEST_CASE("the clock knows tokens, and the data's epochs cut to the subset") {
  mpt::train_config config;
  config.global_train_batch_size = 8;
  config.train_loader.max_seq_len = 128;
  config.max_duration = mpt::parse_time("2ep");
  auto clock = mpt::clock_of(config, 50);
  CHECK(clock.tokens_per_batch == 1024);
  CHECK(mpt::total_batches(clock) == 100);
  config.train_subset_num_batches = 10;
  CHECK(mpt::total_batches(mpt::clock_of(config, 50)) == 20);
  CHECK(mpt::clock_of(config).batches_per_epoch == 0);
}

}  // namespace train_test
