// The checkpoints of MPT's runs: which one a run begins from, what a checkpoint records of the run
// in addition to the parameters and the optimizer (parallel/checkpoint/stepper.hpp), and whether a
// run may continue from it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>
#include <mpt/hf/adapted_model.hpp>
#include <mpt/hf/is_model.hpp>
#include <mpt/train/checkpoint/possible_counters.hpp>
#include <mpt/train/checkpoint/same_model.hpp>
#include <mpt/train/checkpoint/weight_source.hpp>
#include <mpt/train/data/trained_set.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/stepper.hpp>
#include <parallel/comm/any_communicator.hpp>

namespace mpt {

namespace checkpoint = parallel::checkpoint;

/// The progress of a run.
struct run_state {
  std::int64_t batches = 0;  ///< finished
  std::int64_t epoch = 0;
  std::int64_t batch_in_epoch = 0;
  trained_set data = {};
  std::int64_t tokens = 0;
  nlohmann::json callbacks = nlohmann::json::object();  ///< the states of the callbacks
  std::optional<double> best_loss = {};  ///< least evaluation loss at a checkpoint so far
  bool is_best = false;                  ///< this checkpoint has the least loss
  nlohmann::json skipped = nlohmann::json::array();  ///< ranges, as skipped_batches saves them
  nlohmann::json spikes = nullptr;                   ///< the saved state of spike_limits
};

/// A checkpoint to begin from.
struct found_checkpoint {
  std::filesystem::path folder;
  bool weights_only = false;
  std::string note;  ///< what was unexpected, for the user
  checkpoint::if_damaged on_damage = checkpoint::if_damaged::stop;  ///< what to do if it is damaged
  std::optional<checkpoint::checkpoint_reader> reader =
      {};  ///< set for a sound checkpoint of a run
};

/// Whether `folder` is itself a checkpoint rather than a folder of them.
[[nodiscard]] bool is_checkpoint(std::filesystem::path const& folder);

/// The checkpoint that autoresume or load_path asks for; std::nullopt for a fresh start. Throws
/// where a fresh start would overwrite another run's checkpoints.
[[nodiscard]] std::optional<found_checkpoint> checkpoint_to_load(
    checkpoint_config const& checkpoint);

/// The state in the checkpoint of the run that this one continues; null for a fresh start, and for
/// a checkpoint that cannot be read.
[[nodiscard]] nlohmann::json state_of_resumed_run(checkpoint_config const& checkpoint);

/// The date that chat templates showed when the run began that this one continues, so that they
/// write the same texts again; std::nullopt for a fresh start, and for a checkpoint that does not
/// say it or cannot be read.
[[nodiscard]] std::optional<std::chrono::local_seconds> date_of_resumed_run(
    checkpoint_config const& checkpoint);

/// Adds notes for the user about a run that has begun from `found` at `batch`.
/// `is_stopped`: early_stopper had already ended that run, so it trains no further batch.
void add_notes(std::vector<std::string>& notes, found_checkpoint const& found,
               model_config const& model, optimizer_config const& optimizer,
               execution_config const& execution, std::int64_t batch, bool is_stopped);

/// Collective: returns to every rank the checkpoint that rank 0 has `found`, after all ranks have
/// read it and compared its checksums. Where the latest checkpoint of a folder is damaged, returns
/// the one before it, and the note says so. Other weights than a run's checkpoint are checked when
/// they are read.
template <class Exchange>
[[nodiscard]] found_checkpoint agree_on_sound(parallel::any_communicator& comm, Exchange& exchanges,
                                              found_checkpoint found) {
  std::array<std::int64_t, 3> facts{found.weights_only, static_cast<std::int64_t>(found.on_damage),
                                    !found.folder.empty() && is_checkpoint(found.folder)};
  comm.broadcast(exchanges, std::span<std::int64_t>(facts), 0).wait();
  found.folder = broadcast_text(comm, exchanges, found.folder.string());
  found.note = broadcast_text(comm, exchanges, found.note);
  found.weights_only = facts[0] != 0;
  found.on_damage = static_cast<checkpoint::if_damaged>(facts[1]);
  if (facts[2] == 0) return found;
  auto sound = checkpoint::find_sound(comm, exchanges, found.folder, found.on_damage);
  found.folder = sound.reader.folder();
  found.reader = std::move(sound.reader);
  if (!sound.note.empty()) found.note += (found.note.empty() ? "" : "; ") + sound.note;
  return found;
}

namespace detail {

/// The settings that determine the order of the data and the optimizer's states; a resumed run must
/// have the same.
[[nodiscard]] nlohmann::json data_order_of(model_config const& model, data_config const& data,
                                           optimizer_config const& optimizer, run_config const& run,
                                           trained_set const& set);

/// Throws when the run's data_order_of differs from the checkpoint's.
void require_same_order(nlohmann::json const& saved, nlohmann::json const& current,
                        std::filesystem::path const& folder);

/// Throws for a checkpoint of another model than the run's.
void require_same_model(nlohmann::json const& state, model_config const& model,
                        std::filesystem::path const& folder, bool weights_only);

/// Throws when the checkpoint was trained in the canonical order of reductions, and this run has
/// another order or adds up gradients of microbatches of another size: its results would depend on
/// where it was resumed. A run in another order may continue in the canonical one.
void require_same_reduction_order(nlohmann::json const& state, data_config const& data,
                                  execution_config const& execution,
                                  std::filesystem::path const& folder);

}  // namespace detail

/// The state of a run that its checkpoint holds. `adapter_base`: the result of
/// adapter_base_of.
[[nodiscard]] checkpoint::run_state saved_state(train_config const& config, run_state const& state,
                                                hf::adapted_model const& adapter_base = {});

/// Throws if the state of a checkpoint says that its adapters were trained for other weights than
/// those of `current`, the model that the run adapts. What either does not know is not compared.
void require_same_adapted_model(nlohmann::json const& state, hf::adapted_model const& current,
                                std::filesystem::path const& folder);

/// The save options of a run, which say what becomes of earlier checkpoints. `begun_from`: the
/// checkpoint from which the run began, or "".
[[nodiscard]] checkpoint::save_options save_options_of(
    checkpoint_config const& config, parallel::action_hook on_action = {},
    checkpoint::claim_id owner = {}, std::filesystem::path const& begun_from = {});

/// Collective: loads all ranks' memory from a sound checkpoint written in any layout, after
/// checking that it belongs to this run, or from a Hugging Face folder, which `open` opens. Returns
/// the progress of the run; with weights_only the optimizer starts from zero.
template <class Session>
run_state load_run(Session& session, train_config const& config, found_checkpoint const& found,
                   trained_set const& data, weight_opener const& open) {
  bool const begins_adapters =
      found.weights_only && config.model.lora;  // the source may have no adapters
  if (hf::is_model(found.folder) || begins_adapters) {
    require(
        open != nullptr, found.folder.string(),
        ": holds weights, but the run has no function that opens them (run_parts::open_weights)");
    checkpoint::load_from(
        session.stepper(), session.exchanges(),
        *open(config.model, config.optimizer, config.run, config.checkpoint, found.folder),
        found.folder.string(), checkpoint::content::weights);
    return {.data = data};
  }
  require(found.reader.has_value(), found.folder.string(),
          ": is neither a ParallelLM checkpoint nor a Hugging Face folder");
  auto const& reader = *found.reader;
  require(config.model.lora || !reader.state().contains("peft_config"), found.folder.string(),
          ": has adapters, but this run has none; merge them first (convert --merge), or give "
          "model.peft_config");
  detail::require_same_model(reader.state(), config.model, found.folder, found.weights_only);
  if (!found.weights_only) {
    detail::require_same_order(
        reader.state().value("order", nlohmann::json::object()),
        detail::data_order_of(config.model, config.data, config.optimizer, config.run, data),
        found.folder);
    detail::require_same_reduction_order(reader.state(), config.data, config.execution,
                                         found.folder);
    if (!reader.state().value("weights_only", false))
      require_possible_counters(
          reader.state(), clock_of(config.data, config.run, data.batches_per_epoch), found.folder);
  }
  require(found.weights_only || !reader.state().value("weights_only", false), found.folder.string(),
          ": holds weights alone (save_weights_only), and an optimizer cannot "
          "go on from these; begin with them: load_weights_only=true");
  using enum checkpoint::content;
  auto const state = checkpoint::load(session.stepper(), session.exchanges(), reader,
                                      found.weights_only ? weights : everything);
  auto const number = [&](char const* key) {
    require(state.program_state.contains(key) && state.program_state.at(key).is_number_integer(),
            found.folder.string(), ": its state lacks the number ", key);
    return state.program_state.at(key).template get<std::int64_t>();
  };
  std::optional<double> best_loss;
  if (auto const best = state.program_state.find("best_loss");
      best != state.program_state.end() && best->is_number())
    best_loss = best->template get<double>();
  return {.batches = state.batches,
          .epoch = state.epoch,
          .batch_in_epoch = number("batch_in_epoch"),
          .data = data,
          .tokens = number("tokens"),
          .callbacks = state.program_state.value("callbacks", nlohmann::json::object()),
          .best_loss = best_loss,
          .skipped = state.program_state.value("skipped", nlohmann::json::array()),
          .spikes = state.program_state.value("spikes", nlohmann::json(nullptr))};
}

}  // namespace mpt
