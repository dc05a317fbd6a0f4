// series: the checkpoints of one run in a folder, from which train::run_training resumes and to
// which it saves.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include <parallel/checkpoint/stepper.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::checkpoint {

/// `Comm`: a communicator of all ranks of the session, which outlives the series.
template <class Comm>
class series {
 public:
  /// `root` is the same folder on every rank. It is created before the run, so that one that cannot
  /// be does not end the run at its first save.
  series(Comm& world, std::filesystem::path root, save_options options = {})
      : world_(world), root_(std::move(root)), options_(std::move(options)) {}

  /// Loads the latest sound checkpoint; returns nothing where none was ever saved. Collective.
  template <class Session>
  [[nodiscard]] std::optional<resumed_run> resume(Session& session) {
    if (world_.rank() == 0) files::make_folders(root_);
    return checkpoint::resume(session.stepper(), world_, session.exchanges(), root_);
  }
  /// Saves a checkpoint of the run after `batches` batches. Collective.
  template <class Session>
  void save(Session& session, index batches) {
    checkpoint::save(session.stepper(), world_, session.exchanges(), root_, {.batches = batches},
                     options_);
  }

 private:
  Comm& world_;
  std::filesystem::path root_;
  save_options options_;
};

}  // namespace parallel::checkpoint
