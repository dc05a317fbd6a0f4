// run_data: the interface by which a trainer reads training and evaluation data, text or examples
// (configured_data.hpp implements it for the loaders of a configuration).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/data/trained_set.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/data/share.hpp>

namespace mpt {

/// A data rank's share of training batches; batch numbers count from the start of the run. Ranks
/// that have the same share have the same batches.
class run_batches {
 public:
  run_batches() = default;
  run_batches(run_batches&&) = delete;
  virtual ~run_batches() = default;

  [[nodiscard]] virtual index batches_per_epoch() const = 0;
  [[nodiscard]] virtual trained_set const& set() const = 0;
  /// The rows of a global batch that `at` returns.
  [[nodiscard]] virtual parallel::data::share share() const = 0;
  /// The share of global batch `batch`.
  [[nodiscard]] virtual sequences at(index batch) = 0;
  /// Whether `at` reads no disk.
  [[nodiscard]] virtual bool is_in_memory() const = 0;
  /// Tokens of the last global batch that `at` returned, without padding.
  [[nodiscard]] virtual std::int64_t tokens() const = 0;
  /// The same with padding.
  [[nodiscard]] virtual std::int64_t padded_tokens() const = 0;
  /// Seconds `at` has waited for data so far.
  [[nodiscard]] virtual double waited_seconds() const = 0;
};

/// Returns batches.at(batch), which only one of the ranks of `mesh` (run_mesh) with this share
/// reads from the disk. Collective over the ranks with this share.
template <class Mesh>
[[nodiscard]] sequences shared_batch(run_batches& batches, index batch, Mesh& mesh) {
  if (batches.is_in_memory()) return batches.at(batch);
  return mesh.read_once([&] { return std::optional(batches.at(batch)); }).value();
}

/// An evaluation set, which can be read any number of times.
class evaluation_set {
 public:
  /// Each call returns the next batch, which may hold no sequence for this rank; nothing after the
  /// last.
  using reader = std::function<std::optional<sequences>()>;

  evaluation_set() = default;
  evaluation_set(evaluation_set&&) = delete;
  virtual ~evaluation_set() = default;

  /// Whether its batches read no disk.
  [[nodiscard]] virtual bool is_in_memory() const = 0;
  /// A reader of data rank `rank`'s part, from the first batch to the last. It must not outlive the
  /// set.
  [[nodiscard]] virtual reader batches(int rank, int ranks) const = 0;
};

/// A reader of this rank's batches of `set`, which only one of the ranks of `mesh` (run_mesh) with
/// the same share reads from the disk; `set` and `mesh` must outlive it. This function and each
/// call of the reader are collective over the ranks with the same share.
template <class Mesh>
[[nodiscard]] evaluation_set::reader shared_batches(evaluation_set const& set, Mesh& mesh) {
  if (set.is_in_memory()) return set.batches(mesh.data_rank(), mesh.data_ranks());
  return [&set, &mesh, reader = evaluation_set::reader()]() mutable {
    return mesh.read_once([&] {
      if (!reader) reader = set.batches(mesh.data_rank(), mesh.data_ranks());
      return reader();
    });
  };
}

/// The data of a run. Ranks that are threads share one object and call it at the same time.
class run_data {
 public:
  run_data() = default;
  run_data(run_data&&) = delete;
  virtual ~run_data() = default;

  /// The share of data rank `rank`. Throws when there is too little for one batch.
  [[nodiscard]] virtual std::unique_ptr<run_batches> batches(model_config const& model,
                                                             data_config const& data,
                                                             execution_config const& execution,
                                                             int rank, int ranks) const = 0;
  /// One for each of data.eval_loaders, for one of `ranks` data ranks; `data` must outlive them.
  [[nodiscard]] virtual std::vector<std::unique_ptr<evaluation_set>> evaluation_sets(
      model_config const& model, data_config const& data, evaluation_config const& evaluation,
      execution_config const& execution, int ranks) const = 0;
};

}  // namespace mpt
