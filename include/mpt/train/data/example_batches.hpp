// Batches of examples: each rank's share of the rows of a global batch.
//
// The examples of a batch and their packing into rows are the same on any number of ranks
// (finetune/batch_order.hpp); every rank computes them, since that needs lengths alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <mpt/finetune/bin_packing.hpp>
#include <mpt/finetune/rows.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/data/row_lengths.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

namespace detail {

/// The packing ratio that is computed for a loader with `packing_ratio: auto`; std::nullopt where
/// the loader gives a number or does not pack.
[[nodiscard]] std::optional<double> automatic_packing_ratio(loader_config const& loader,
                                                            example_set const* examples,
                                                            std::int64_t rows);

}  // namespace detail

/// A rank's share of training batches; batch numbers count from the start of the run.
class example_batches {
 public:
  /// Throws when there are too few examples for one batch.
  example_batches(data_config const& data, execution_config const& execution,
                  std::shared_ptr<example_set const> set, int rank, int ranks)
      : set_(std::move(set)),
        max_length_(data.train_loader.max_seq_len),
        trimming_(data.train_loader.finetuning->trimming),
        granule_(row_granule(execution.parallelism)),
        share_(share_of(data, execution, rank, ranks)),
        order_(set_->lengths(), order_options(data, *set_)) {}

  [[nodiscard]] index batches_per_epoch() const;
  [[nodiscard]] index samples() const { return static_cast<index>(set_->examples.size()); }
  [[nodiscard]] example_set const& examples() const { return *set_; }
  [[nodiscard]] parallel::data::share share() const { return share_; }

  /// This rank's share of global batch `batch`. A batch before the one last read costs a replay of
  /// packing.
  [[nodiscard]] sequences at(index batch);

  /// Tokens of the global batch whose share `at` returned last, without padding.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Tokens of that global batch with padding.
  [[nodiscard]] std::int64_t padded_tokens() const { return padded_tokens_; }
  /// Zero: all examples are in memory, so no batch waits for data.
  [[nodiscard]] double waited_seconds() const { return 0; }

 private:
  [[nodiscard]] static finetune::batch_order_options order_options(data_config const& data,
                                                                   example_set const& set);

  std::shared_ptr<example_set const> set_;
  index max_length_;  // tokens of the longest row
  finetune::row_trimming trimming_;
  index granule_;  // tokens; the length of a trimmed row is a multiple of it
  parallel::data::share share_;
  finetune::batch_order order_;
  std::int64_t tokens_ = 0;  // in the global batch that was read last
  std::int64_t padded_tokens_ = 0;
};

/// A line for each loader with `packing_ratio: auto`: the ratio that was found.
[[nodiscard]] std::vector<std::string> describe_packing(run_examples const& examples,
                                                        data_config const& data,
                                                        evaluation_config const& evaluation);

/// The rows of an evaluation set, every example once with any packing, in the order in which
/// one rank reads them. Cost: as bin_packer.
[[nodiscard]] std::vector<finetune::bin> evaluation_rows(example_set const& set,
                                                         loader_config const& loader,
                                                         index device_batch);

/// A rank's share of an evaluation set of examples, from its first batch to its last.
class example_evaluation {
 public:
  /// The arguments are those of evaluation_batches. `set` must outlive this object.
  example_evaluation(example_set const& set, loader_config const& loader, index device_batch,
                     int rank, int ranks, index max_batches);

  /// The next batch, which may hold no row for this rank; std::nullopt after the
  /// last.
  [[nodiscard]] std::optional<sequences> next();

 private:
  example_set const& set_;
  index length_;
  std::vector<finetune::bin> rows_;
  std::size_t rank_rows_;
  std::size_t first_row_;  // first row of this rank in each batch
  std::size_t stride_;     // rows of a global batch
  std::size_t position_ = 0;
};

}  // namespace mpt
