// hf_checkpointer: writes Hugging Face folders of the model during training, or PEFT folders of its
// adapters. All ranks write a folder together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <mpt/config/train.hpp>
#include <mpt/hf/adapted_model.hpp>
#include <mpt/hf/save_folder.hpp>

namespace mpt {

/// The contents of an hf_checkpointer's folders other than the values of weights: names and shapes
/// of tensors, and options of the export.
struct hf_exports {
  hf::stored_tensors tensors;
  hf::export_options options;
};

class hf_checkpointer {
 public:
  /// `exports` is shared by the ranks of a process.
  hf_checkpointer(hf_checkpointer_config settings, std::shared_ptr<hf_exports const> exports)
      : settings_(std::move(settings)), exports_(std::move(exports)) {}

  /// Whether a folder is written after `batch`. `stopped`: whether the run stops after this batch.
  [[nodiscard]] bool is_due(std::int64_t batch, training_clock const& clock, bool stopped) const;

  /// The folder that is written after a batch.
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t batch, std::int64_t epoch) const;

  /// Writes the folder as hf::save_folder describes, and returns its path. Collective, between two
  /// steps.
  template <class Stepper, class Comm, class Exchange>
  std::filesystem::path save(Stepper& step, Comm& world, Exchange& exchanges, std::int64_t batch,
                             std::int64_t epoch) const {
    auto out = folder_of(batch, epoch);
    hf::save_folder(step, world, exchanges, out, exports_->tensors, exports_->options);
    return out;
  }

  /// Writes the folder of this batch if one is due. Returns a message for the user; empty: none.
  /// Collective.
  template <class Stepper, class Comm, class Exchange>
  std::string save_if_due(Stepper& step, Comm& world, Exchange& exchanges, std::int64_t batch,
                          training_clock const& clock, bool stopped) const {
    if (!is_due(batch, clock, stopped)) return {};
    auto const epoch = batch / clock.batches_per_epoch;
    if (is_resumed_ &&
        !settings_.overwrite) {  // a resumed run may repeat a batch whose folder is written
      auto const folder = folder_of(batch, epoch);
      if (folder_exists(world, exchanges, folder))
        return folder.string() + " exists already and is kept (overwrite: false)";
    }
    return "model written to " + save(step, world, exchanges, batch, epoch).string();
  }

  /// Notes that the run resumes from a checkpoint of this batch. When the run `is_finished` and its
  /// last folder does not exist, because the earlier process ended before it, writes that folder
  /// now. Returns a message for the user; empty: none. Collective.
  template <class Stepper, class Comm, class Exchange>
  std::string resume(Stepper& step, Comm& world, Exchange& exchanges, std::int64_t batch,
                     training_clock const& clock, bool is_finished) {
    is_resumed_ = true;
    auto const epoch = batch / clock.batches_per_epoch;
    if (!is_finished || folder_exists(world, exchanges, folder_of(batch, epoch))) return {};
    return "model written to " + save(step, world, exchanges, batch, epoch).string();
  }

 private:
  /// Whether rank 0 sees the folder; the same answer on all ranks.
  template <class Comm, class Exchange>
  [[nodiscard]] static bool folder_exists(Comm& world, Exchange& exchanges,
                                          std::filesystem::path const& folder) {
    std::error_code unreadable;
    std::int64_t found = world.rank() == 0 && std::filesystem::exists(folder, unreadable);
    world.broadcast(exchanges, std::span(&found, 1), 0).wait();
    return found != 0;
  }

  hf_checkpointer_config settings_;
  std::shared_ptr<hf_exports const> exports_;
  bool is_resumed_ = false;
};

/// The exports of a configuration that has an hf_checkpointer. Reads the tokenizer's files if they
/// exist. `base`: the base model of a run that trains adapters, see adapter_base_of.
[[nodiscard]] hf_exports hf_exports_of(model_config const& model, data_config const& data,
                                       callbacks_config const& callbacks,
                                       hf::adapted_model const& base);

}  // namespace mpt
