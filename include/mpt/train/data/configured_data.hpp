// configured_data: the data that the loaders of a configuration name, text or examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/data/token_streams.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/data/example_batches.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/data/remote_sets.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/data/trained_set.hpp>
#include <mpt/train/data/training_data.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

namespace detail {

[[nodiscard]] trained_set make_trained_set(example_batches const& batches);
[[nodiscard]] trained_set make_trained_set(training_batches const& batches);

}  // namespace detail

/// The batches of train_loader.
class configured_batches final : public run_batches {
 public:
  /// `examples`: the examples of train_loader, null for text. `cache`: of its remote sets, or null.
  configured_batches(model_config const& model, data_config const& data,
                     execution_config const& execution, std::shared_ptr<example_set const> examples,
                     int rank, int ranks, std::shared_ptr<data::shard_cache> const& cache = {})
      : source_(open(model, data, execution, std::move(examples), rank, ranks, cache)),
        padded_tokens_(data.global_train_batch_size * data.train_loader.max_seq_len),
        set_(std::visit([](auto const& s) { return detail::make_trained_set(s); }, source_)) {}

  [[nodiscard]] index batches_per_epoch() const override;
  [[nodiscard]] trained_set const& set() const override { return set_; }
  [[nodiscard]] parallel::data::share share() const override;
  [[nodiscard]] sequences at(index batch) override;
  [[nodiscard]] bool is_in_memory() const override;
  [[nodiscard]] std::int64_t tokens() const override;
  [[nodiscard]] std::int64_t padded_tokens() const override;
  [[nodiscard]] double waited_seconds() const override;

 private:
  using batch_source = std::variant<training_batches, example_batches>;

  [[nodiscard]] static batch_source open(model_config const& model, data_config const& data,
                                         execution_config const& execution,
                                         std::shared_ptr<example_set const> examples, int rank,
                                         int ranks,
                                         std::shared_ptr<data::shard_cache> const& cache);

  batch_source source_;
  std::int64_t padded_tokens_;  // tokens and padding of a batch
  trained_set set_;
};

/// The evaluation set of one of a configuration's eval_loaders.
class configured_set final : public evaluation_set {
 public:
  /// The set of `loader`, which must outlive it. `examples`: the examples of the set, null for
  /// text. `cache`: of its remote sets, or null. Throws where a remote set needs more room in its
  /// cache than the limit of its loader, when `ranks` data ranks read it.
  configured_set(model_config const& model, loader_config const& loader,
                 evaluation_config const& evaluation, execution_config const& execution,
                 std::shared_ptr<example_set const> examples, int ranks = 1,
                 std::shared_ptr<data::shard_cache> const& cache = {});

  [[nodiscard]] bool is_in_memory() const override { return examples_ != nullptr; }
  [[nodiscard]] reader batches(int rank, int ranks) const override;

 private:
  loader_config const* loader_;
  index device_batch_;
  index max_batches_;
  bool is_canonical_;
  std::shared_ptr<example_set const> examples_;
  std::optional<data::token_streams> streams_;
};

/// The training batches and evaluation sets of a configuration.
class configured_data final : public run_data {
 public:
  /// `examples`: the result of read_run_examples; empty where all loaders read text. `sets`: the
  /// caches of remote sets, which this object then owns.
  explicit configured_data(run_examples examples = {}, remote_sets sets = {})
      : examples_(std::move(examples)), sets_(std::move(sets)) {}

  [[nodiscard]] std::unique_ptr<run_batches> batches(model_config const& model,
                                                     data_config const& data,
                                                     execution_config const& execution, int rank,
                                                     int ranks) const override;
  [[nodiscard]] std::vector<std::unique_ptr<evaluation_set>> evaluation_sets(
      model_config const& model, data_config const& data, evaluation_config const& evaluation,
      execution_config const& execution, int ranks) const override;

 private:
  run_examples examples_;
  remote_sets sets_;
};

}  // namespace mpt
