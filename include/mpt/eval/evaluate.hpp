// Evaluation of a model's weights on unseen token sequences: cross entropy, perplexity, accuracy.
//
// It also reports the unigram cross entropy of the same labels, which the best model without any
// context would reach. Memory: the weights, and one batch's forward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <mpt/eval/evaluation_result.hpp>
#include <mpt/model/device_sequences.hpp>
#include <mpt/model/model.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/train/plan.hpp>

namespace mpt {

/// Entropy of the labels' own frequencies, in nats: a lower bound for any model without context.
class unigram_counter {
 public:
  explicit unigram_counter(index vocabulary) : counts_(static_cast<std::size_t>(vocabulary)) {}

  void add(std::span<std::int32_t const> labels);

  [[nodiscard]] double cross_entropy() const;

  /// Counts by label, for summing over ranks.
  [[nodiscard]] std::span<std::int64_t> counts() { return counts_; }

 private:
  std::vector<std::int64_t> counts_;
};

/// Evaluates on all batches that `next` returns; calls on_progress(tokens) after every batch. With
/// `ranks` it is collective: each rank evaluates its own batches, ranks that share a model the same
/// ones, and all get the means over all batches.
template <class T, class Comm, class Device>
[[nodiscard]] evaluation_result evaluate(model<T, Comm> const& net, Device const& device,
                                         typename Device::stream_type& stream,
                                         std::function<std::optional<sequences>()> const& next,
                                         std::function<void(std::int64_t)> const& on_progress = {},
                                         any_communicator* ranks = nullptr) {
  auto const shared = device.template allocate_shared<train::statistics<double>>(1);
  auto& sums = *shared.data();
  device_sequences<Device> batch_data(device);
  unigram_counter unigrams(net.config().vocab_size);
  arena memory;
  std::size_t capacity = 0;
  while (auto const batch = next()) {
    if (batch->count() == 0) continue;
    unigrams.add(batch->view({0, batch->count()}).labels.span());
    batch_data.assign(*batch);
    auto const part = batch_data.view({0, batch_data.count()});
    auto const bytes =
        train::plan_evaluation(net, sequences::shape_of(part.sequences, part.length));
    if (bytes > capacity) {
      capacity = bytes;
      memory = arena(device.template allocate<std::byte>(bytes));
    }
    context<typename Device::stream_type> c{stream, memory, pass::inference, {}, part.length};
    train::evaluate_microbatch(net, c, part, sums);
    stream.synchronize();
    if (on_progress) on_progress(sums.tokens);
  }
  if (ranks != nullptr && ranks->size() > 1) {
    parallel::host::stream exchanges;
    auto const add = [&](auto values) {
      ranks->all_reduce(exchanges, values, parallel::reduction::sum).wait();
    };
    add(std::span(&sums.loss, 1));
    add(std::span(&sums.tokens, 1));
    add(std::span(&sums.correct, 1));
    add(unigrams.counts());  // ranks that share a model count the same: proportions hold
  }
  require(sums.tokens > 0, "there is nothing to evaluate: the data has no token with a label");
  auto const tokens = static_cast<double>(sums.tokens);
  return {.tokens = sums.tokens,
          .cross_entropy = sums.loss / tokens,
          .token_accuracy = static_cast<double>(sums.correct) / tokens,
          .unigram_cross_entropy = unigrams.cross_entropy()};
}

}  // namespace mpt
