// The row lengths that a run is planned for.
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/data/row_lengths.hpp>

TEST_CASE("row lengths: trimmed rows have lengths that divide equally over the ranks") {
  mpt::train_config config;
  config.data.train_loader.max_seq_len = 50;
  using lengths = std::vector<mpt::index>;
  CHECK(mpt::row_lengths(config.data, config.execution.parallelism) ==
        lengths{50});  // rows of text
  config.data.train_loader.finetuning = mpt::finetuning_config{};
  CHECK(mpt::row_lengths(config.data, config.execution.parallelism) == lengths{50});
  config.data.train_loader.finetuning->trimming = mpt::finetune::row_trimming::to_longest;
  CHECK(mpt::row_lengths(config.data, config.execution.parallelism) ==
        lengths{50, 48, 40, 32, 24, 16, 8});
  config.execution.parallelism.tensor = 3;
  CHECK(mpt::row_granule(config.execution.parallelism) == 8);
  config.execution.parallelism.sequence_parallel = true;
  CHECK(mpt::row_granule(config.execution.parallelism) == 24);
  config.execution.parallelism.context = 2;  // 4 chunks, and 3 parts of each rank's rows
  CHECK(mpt::row_granule(config.execution.parallelism) == 24);
  config.execution.parallelism.context = 8;
  config.data.train_loader.max_seq_len = 144;
  CHECK(mpt::row_lengths(config.data, config.execution.parallelism) == lengths{144, 96, 48});
}
