// The data of a run, text or examples: what its loaders say, behind one form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/data/token_streams.hpp>
#include <mpt/train/data_fingerprint.hpp>
#include <mpt/train/example_batches.hpp>
#include <mpt/train/example_set.hpp>
#include <mpt/train/sequences.hpp>
#include <mpt/train/trained_set.hpp>
#include <mpt/train/training_data.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

namespace detail {

[[nodiscard]] inline trained_set set_of(example_batches const& batches) {
  return {batches.samples(), checksum_of(batches.examples())};
}
[[nodiscard]] inline trained_set set_of(training_batches const& batches) {
  parallel::checkpoint::running_checksum sum;
  auto const& streams = batches.streams();
  for (std::size_t s = 0; s < streams.count(); ++s)
    sum.add(std::as_bytes(streams.set(s).shard_samples()));
  return {batches.samples(), parallel::checkpoint::checksum_text(sum.value())};
}

}  // namespace detail

/// A rank's share of training batches; batch numbers count from the start of the run.
class run_batches {
 public:
  /// `examples`: those of train_loader, null for text.
  run_batches(train_config const& config, std::shared_ptr<example_set const> examples, int rank,
              int ranks)
      : source_(open(config, std::move(examples), rank, ranks)),
        padded_(config.global_train_batch_size * config.train_loader.max_seq_len),
        set_(std::visit([](auto const& s) { return detail::set_of(s); }, source_)) {}

  [[nodiscard]] index batches_per_epoch() const {
    return std::visit([](auto const& s) { return s.batches_per_epoch(); }, source_);
  }
  [[nodiscard]] trained_set const& set() const { return set_; }
  [[nodiscard]] parallel::data::share share() const {
    return std::visit([](auto const& s) { return s.share(); }, source_);
  }
  /// The share of global batch `batch`.
  [[nodiscard]] sequences at(index batch) {
    return std::visit([&](auto& s) { return s.at(batch); }, source_);
  }
  /// The same, read from the disk by one of the ranks of `mesh` (run_mesh) that have this share.
  /// Collective over these.
  template <class Mesh>
  [[nodiscard]] sequences at(index batch, Mesh& mesh) {
    if (std::holds_alternative<example_batches>(source_)) return at(batch);  // in memory
    return mesh.read_once([&] { return std::optional(at(batch)); }).value();
  }
  /// Ids of the last global batch that `at` gave, without padding.
  [[nodiscard]] std::int64_t tokens() const {
    auto const* const examples = std::get_if<example_batches>(&source_);
    return examples != nullptr ? examples->tokens() : padded_;
  }
  /// With padding.
  [[nodiscard]] std::int64_t places() const {
    auto const* const examples = std::get_if<example_batches>(&source_);
    return examples != nullptr ? examples->places() : padded_;
  }
  /// Seconds `at` has waited for data so far.
  [[nodiscard]] double waited_seconds() const {
    return std::visit([](auto const& s) { return s.waited_seconds(); }, source_);
  }

 private:
  using either = std::variant<training_batches, example_batches>;

  [[nodiscard]] static either open(train_config const& config,
                                   std::shared_ptr<example_set const> examples, int rank,
                                   int ranks) {
    if (examples != nullptr)
      return either(std::in_place_type<example_batches>, config, std::move(examples), rank, ranks);
    require(!config.train_loader.finetuning,
            "a run whose train_loader is of finetuning needs its examples; give those that "
            "read_run_examples reads");
    return either(std::in_place_type<training_batches>, config, rank, ranks);
  }

  either source_;
  std::int64_t padded_;  // places of a batch
  trained_set set_;
};

/// One evaluation set of a run, to be read any number of times.
class evaluation_set {
 public:
  /// Set `at` of the configuration, which must outlive it. `examples`: its, null for text.
  evaluation_set(train_config const& config, std::size_t at,
                 std::shared_ptr<example_set const> examples)
      : config_(&config), loader_(&config.eval_loaders[at]), examples_(std::move(examples)) {
    if (examples_ == nullptr) streams_ = open_streams(*loader_, config.model.vocab_size);
  }

  /// The same, read from the disk by one of the ranks of `mesh` (run_mesh), which must outlive it,
  /// that have one share. Collective over these, and so is each call.
  template <class Mesh>
  [[nodiscard]] std::function<std::optional<sequences>()> batches(Mesh& mesh) const {
    if (examples_ != nullptr) return batches(mesh.data_rank(), mesh.data_ranks());  // in memory
    using reader = std::function<std::optional<sequences>()>;
    return [this, &mesh, own = reader()]() mutable {
      return mesh.read_once([&] {
        if (!own) own = batches(mesh.data_rank(), mesh.data_ranks());
        return own();
      });
    };
  }

  /// From the first batch to the last: each call of what is returned gives the next batch, which
  /// may hold no sequence for this rank, or nothing after the last. Must not outlive this.
  [[nodiscard]] std::function<std::optional<sequences>()> batches(int rank, int ranks) const {
    auto const device_batch = config_->evaluation.device_eval_batch_size;
    auto const most = config_->evaluation.eval_subset_num_batches;
    auto const reading = [](auto batches) { return [batches] { return batches->next(); }; };
    if (examples_ != nullptr)
      return reading(std::make_shared<example_evaluation>(*examples_, *loader_, device_batch, rank,
                                                          ranks, most));
    return reading(std::make_shared<evaluation_batches>(*streams_, device_batch, rank, ranks, most,
                                                        separator_of(*loader_),
                                                        is_canonical(*config_)));
  }

 private:
  train_config const* config_;
  loader_config const* loader_;
  std::shared_ptr<example_set const> examples_;
  std::optional<data::token_streams> streams_;
};

/// All of a run's; see evaluation_set. `examples`: empty where all are text.
[[nodiscard]] inline std::vector<evaluation_set> evaluation_sets_of(train_config const& config,
                                                                    run_examples const& examples) {
  std::vector<evaluation_set> out;
  auto const& given = examples.evaluation;
  for (std::size_t i = 0; i < config.eval_loaders.size(); ++i)
    out.emplace_back(config, i, i < given.size() ? given[i] : nullptr);
  return out;
}

}  // namespace mpt
