// configured_data: the data that the loaders of a configuration name, text or examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/data/token_streams.hpp>
#include <mpt/train/data_fingerprint.hpp>
#include <mpt/train/example_batches.hpp>
#include <mpt/train/example_set.hpp>
#include <mpt/train/run_data.hpp>
#include <mpt/train/sequences.hpp>
#include <mpt/train/trained_set.hpp>
#include <mpt/train/training_data.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

namespace detail {

[[nodiscard]] inline trained_set set_of(example_batches const& batches) {
  return {.samples = batches.samples(),
          .checksum = checksum_of(batches.examples()),
          .batches_per_epoch = batches.batches_per_epoch()};
}
[[nodiscard]] inline trained_set set_of(training_batches const& batches) {
  using parallel::checkpoint::checksum_text;
  parallel::checkpoint::running_checksum sizes;
  std::string contents;
  shard_hashes hashes;
  auto const& streams = batches.streams();
  for (std::size_t s = 0; s < streams.count(); ++s) {
    sizes.add(std::as_bytes(streams.set(s).shard_samples()));
    contents += (s == 0 ? "" : " ") + checksum_of(streams.set(s));
    hashes.add(streams.set(s).reader().shards());
  }
  return {.samples = batches.samples(),
          .checksum = checksum_text(sizes.value()),
          .batches_per_epoch = batches.batches_per_epoch(),
          .contents = std::move(contents),
          .hashes = hashes.checksum(),
          .written_as = hashes.written_as()};
}

}  // namespace detail

/// The batches of train_loader.
class configured_batches final : public run_batches {
 public:
  /// `examples`: the examples of train_loader, null for text.
  configured_batches(train_config const& config, std::shared_ptr<example_set const> examples,
                     int rank, int ranks)
      : source_(open(config, std::move(examples), rank, ranks)),
        padded_tokens_(config.global_train_batch_size * config.train_loader.max_seq_len),
        set_(std::visit([](auto const& s) { return detail::set_of(s); }, source_)) {}

  [[nodiscard]] index batches_per_epoch() const override {
    return std::visit([](auto const& s) { return s.batches_per_epoch(); }, source_);
  }
  [[nodiscard]] trained_set const& set() const override { return set_; }
  [[nodiscard]] parallel::data::share share() const override {
    return std::visit([](auto const& s) { return s.share(); }, source_);
  }
  [[nodiscard]] sequences at(index batch) override {
    return std::visit([&](auto& s) { return s.at(batch); }, source_);
  }
  [[nodiscard]] bool in_memory() const override {
    return std::holds_alternative<example_batches>(source_);
  }
  [[nodiscard]] std::int64_t tokens() const override {
    auto const* const examples = std::get_if<example_batches>(&source_);
    return examples != nullptr ? examples->tokens() : padded_tokens_;
  }
  [[nodiscard]] std::int64_t padded_tokens() const override {
    auto const* const examples = std::get_if<example_batches>(&source_);
    return examples != nullptr ? examples->padded_tokens() : padded_tokens_;
  }
  [[nodiscard]] double waited_seconds() const override {
    return std::visit([](auto const& s) { return s.waited_seconds(); }, source_);
  }

 private:
  using batch_source = std::variant<training_batches, example_batches>;

  [[nodiscard]] static batch_source open(train_config const& config,
                                         std::shared_ptr<example_set const> examples, int rank,
                                         int ranks) {
    if (examples != nullptr)
      return batch_source(std::in_place_type<example_batches>, config, std::move(examples), rank,
                          ranks);
    require(!config.train_loader.finetuning,
            "a run whose train_loader is of finetuning needs its examples; give those that "
            "read_run_examples reads");
    return batch_source(std::in_place_type<training_batches>, config, rank, ranks);
  }

  batch_source source_;
  std::int64_t padded_tokens_;  // tokens and padding of a batch
  trained_set set_;
};

/// The evaluation set of one of a configuration's eval_loaders.
class configured_set final : public evaluation_set {
 public:
  /// The evaluation set number `set_index` of `config`, which must outlive it. `examples`: the
  /// examples of the set, null for text.
  configured_set(train_config const& config, std::size_t set_index,
                 std::shared_ptr<example_set const> examples)
      : config_(&config), loader_(&config.eval_loaders[set_index]), examples_(std::move(examples)) {
    if (examples_ == nullptr) streams_ = open_streams(*loader_, config.model.vocab_size);
  }

  [[nodiscard]] bool in_memory() const override { return examples_ != nullptr; }
  [[nodiscard]] reader batches(int rank, int ranks) const override {
    auto const device_batch = config_->evaluation.device_eval_batch_size;
    auto const max_batches = config_->evaluation.eval_subset_num_batches;
    auto const make_reader = [](auto batches) { return [batches] { return batches->next(); }; };
    if (examples_ != nullptr)
      return make_reader(std::make_shared<example_evaluation>(*examples_, *loader_, device_batch,
                                                              rank, ranks, max_batches));
    return make_reader(std::make_shared<evaluation_batches>(*streams_, device_batch, rank, ranks,
                                                            max_batches, separator_of(*loader_),
                                                            is_canonical(*config_)));
  }

 private:
  train_config const* config_;
  loader_config const* loader_;
  std::shared_ptr<example_set const> examples_;
  std::optional<data::token_streams> streams_;
};

/// The training batches and evaluation sets of a configuration.
class configured_data final : public run_data {
 public:
  /// `examples`: the result of read_run_examples; empty where all loaders read text.
  explicit configured_data(run_examples examples = {}) : examples_(std::move(examples)) {}

  [[nodiscard]] std::unique_ptr<run_batches> batches(train_config const& config, int rank,
                                                     int ranks) const override {
    return std::make_unique<configured_batches>(config, examples_.train, rank, ranks);
  }
  [[nodiscard]] std::vector<std::unique_ptr<evaluation_set>> evaluation_sets(
      train_config const& config) const override {
    std::vector<std::unique_ptr<evaluation_set>> out;
    auto const& evaluation = examples_.evaluation;
    for (std::size_t i = 0; i < config.eval_loaders.size(); ++i)
      out.push_back(std::make_unique<configured_set>(
          config, i, i < evaluation.size() ? evaluation[i] : nullptr));
    return out;
  }

 private:
  run_examples examples_;
};

}  // namespace mpt
