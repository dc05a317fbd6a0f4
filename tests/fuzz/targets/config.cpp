// Reads the input as the configuration of a training run, and derives what a run computes first:
// the split of a batch, the clock, learning rates and the batches after which it saves.
#include <mpt/config/read_train.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::config(std::string_view input) {
  refused([&] {
    auto const config = mpt::read_train_config(mpt::make_document(input, "f.yaml"));
    ensure(config.data.global_train_batch_size >= 1 && config.data.max_seq_len >= 2,
           "an accepted configuration has a batch of at least 1 and rows of at least 2");
    static_cast<void>(mpt::describe_ignored(config.output.report));
    static_cast<void>(mpt::split_batch(config.data, config.execution, 1));
    auto const clock = mpt::clock_of(config.data, config.run, 7);
    for (std::int64_t const batch : {0, 1, 100}) {
      auto const rate = config.optimizer.lr *
                        mpt::learning_rate_multiplier(config.optimizer.scheduler, batch, clock);
      ensure(rate >= 0, "a learning rate is a number and not negative");
      static_cast<void>(mpt::is_due(config.checkpoint.save_interval, batch, clock));
    }
  });
}
