#include <mpt/config/train.hpp>

#include <algorithm>

namespace mpt {
namespace {

/// Adds the size of the last forward pass of a rank with this many sequences, when it is smaller
/// than a microbatch.
void add_remainder(batch_split& split, std::int64_t sequences) {
  auto const remainder = sequences % split.microbatch;
  if (remainder > 0 && std::ranges::find(split.remainders, remainder) == split.remainders.end())
    split.remainders.push_back(remainder);
}

}  // namespace

std::string fill_in(std::string text, std::string_view mark, std::string_view value) {
  for (auto position = text.find(mark); position != std::string::npos;
       position = text.find(mark, position + value.size()))
    text.replace(position, mark.size(), value);
  return text;
}

bool is_canonical(execution_config const& execution) {
  return execution.reduction_order == parallel::zero::reduction_order::canonical_tree;
}

bool recomputes(execution_config const& execution) {
  return execution.recompute && !execution.recompute->empty();
}

batch_split split_batch(data_config const& data, execution_config const& execution,
                        std::int64_t ranks, std::int64_t planned_microbatch) {
  std::int64_t const global_batch = data.global_train_batch_size;
  parallel::require(ranks >= 1, "the number of ranks must be at least 1, found ", ranks);
  std::int64_t const requested = data.device_train_microbatch_size.value_or(planned_microbatch);
  parallel::require(requested >= 1, "the microbatch must be at least 1, found ", requested);
  batch_split split;
  if (is_canonical(execution)) {
    split.microbatch = std::min(requested, global_batch);
    split.device_batch =
        parallel::data::aligned_share_of(global_batch, split.microbatch, 0, ranks).size();
    split.accumulation = (split.device_batch + split.microbatch - 1) / split.microbatch;
    add_remainder(split, global_batch);
    return split;
  }
  parallel::require(global_batch >= ranks, "global_train_batch_size ", global_batch,
                    " is less than a sequence for each of ", ranks, " ranks; use ", ranks,
                    " or more, or at most ", global_batch, " ranks that read data");
  split.device_batch = parallel::data::share_of(global_batch, 0, ranks).size();
  split.microbatch = std::min(requested, split.device_batch);
  split.accumulation = (split.device_batch + split.microbatch - 1) / split.microbatch;
  add_remainder(split, split.device_batch);
  add_remainder(split, parallel::data::share_of(global_batch, ranks - 1, ranks).size());
  return split;
}

parallel::data::share share_of(data_config const& data, execution_config const& execution,
                               std::int64_t rank, std::int64_t ranks) {
  std::int64_t const global_batch = data.global_train_batch_size;
  return is_canonical(execution)
             ? parallel::data::aligned_share_of(
                   global_batch, split_batch(data, execution, ranks).microbatch, rank, ranks)
             : parallel::data::share_of(global_batch, rank, ranks);
}

training_clock clock_of(data_config const& data, run_config const& run,
                        std::int64_t batches_per_epoch) {
  if (data.train_subset_num_batches > 0 && batches_per_epoch > 0)
    batches_per_epoch = std::min(batches_per_epoch, data.train_subset_num_batches);
  return {.samples_per_batch = data.global_train_batch_size,
          .tokens_per_batch = data.global_train_batch_size * data.train_loader.max_seq_len,
          .batches_per_epoch = batches_per_epoch,
          .max_duration = run.max_duration};
}

}  // namespace mpt
