// hf_checkpointer: Hugging Face folders of a model while it trains, or PEFT's of its adapters, each
// written by all ranks together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/hf/save_folder.hpp>

namespace mpt {

/// What the folders of a run hold; made by hf_exports_of.
struct hf_exports {
  std::vector<hf::named_shape> tensors;
  hf::export_options options;
};

class hf_checkpointer {
 public:
  /// Of a configuration that has one. `what` is shared by the ranks of a process.
  hf_checkpointer(train_config const& config, std::shared_ptr<hf_exports const> what)
      : settings_(config.callbacks.hf_checkpointer.value()), what_(std::move(what)) {}

  /// Whether this batch, or the one at which the run stops, ends with a folder.
  [[nodiscard]] bool due(std::int64_t batch, training_clock const& clock, bool stopped) const {
    return is_due(settings_.save_interval, batch, clock) || (stopped && batch > 0);
  }

  /// The folder of a batch.
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t batch, std::int64_t epoch) const {
    auto name = settings_.folder_name;
    auto const fill = [&](std::string const& what, std::int64_t value) {
      for (auto at = name.find(what); at != std::string::npos; at = name.find(what))
        name.replace(at, what.size(), std::to_string(value));
    };
    fill("{batch}", batch);
    fill("{epoch}", epoch);
    return std::filesystem::path(settings_.save_folder) / name;
  }

  /// Collective, between two steps: writes the folder, as hf::save_folder says, and returns it.
  template <class Stepper, class Comm, class Exchange>
  std::filesystem::path save(Stepper& step, Comm& world, Exchange& exchanges, std::int64_t batch,
                             std::int64_t epoch) const {
    auto out = folder_of(batch, epoch);
    hf::save_folder(step, world, exchanges, out, what_->tensors, what_->options);
    return out;
  }

  /// Collective: does so after this batch, if that is due. Returns what there is to say about it.
  template <class Stepper, class Comm, class Exchange>
  std::string save_if_due(Stepper& step, Comm& world, Exchange& exchanges, std::int64_t batch,
                          training_clock const& clock, bool stopped) const {
    if (!due(batch, clock, stopped)) return {};
    auto const epoch = batch / clock.batches_per_epoch;
    if (goes_on_ && !settings_.overwrite) {  // it comes to batches whose folders it has written
      auto const folder = folder_of(batch, epoch);
      if (is_there(world, exchanges, folder))
        return folder.string() + " is there already, and stays (overwrite: false)";
    }
    return "model written to " + save(step, world, exchanges, batch, epoch).string();
  }

  /// Collective: the run goes on from a checkpoint of this batch. Where it is `over` its last
  /// folder is written now, if what was to write it did not come to that.
  template <class Stepper, class Comm, class Exchange>
  std::string go_on(Stepper& step, Comm& world, Exchange& exchanges, std::int64_t batch,
                    training_clock const& clock, bool over) {
    goes_on_ = true;
    auto const epoch = batch / clock.batches_per_epoch;
    if (!over || is_there(world, exchanges, folder_of(batch, epoch))) return {};
    return "model written to " + save(step, world, exchanges, batch, epoch).string();
  }

 private:
  /// As rank 0 sees it.
  template <class Comm, class Exchange>
  [[nodiscard]] static bool is_there(Comm& world, Exchange& exchanges,
                                     std::filesystem::path const& folder) {
    std::error_code nowhere;
    std::int64_t found = world.rank() == 0 && std::filesystem::exists(folder, nowhere);
    world.broadcast(exchanges, std::span(&found, 1), 0).wait();
    return found != 0;
  }

  hf_checkpointer_config settings_;
  std::shared_ptr<hf_exports const> what_;
  bool goes_on_ = false;
};

}  // namespace mpt
