// The checkpoints of a training run: master weights and optimizer states as named slices, and the
// few numbers from which everything else follows.
//
// Every rank writes what it speaks for, an equal part of everything whatever the layout, so nothing
// is written twice; it reads whatever ranges it needs, so any number of ranks and any stage can
// continue.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/exchange.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/train/stepper.hpp>

namespace mpt {

namespace checkpoint = parallel::checkpoint;

/// Where a run is.
struct run_state {
  std::int64_t batches = 0;  // finished
  std::int64_t epoch = 0;
  std::int64_t batch_in_epoch = 0;
  std::int64_t samples_in_set = 0;
  std::int64_t tokens = 0;
  nlohmann::json callbacks = nlohmann::json::object();  // what they remember
};

/// A checkpoint to begin from.
struct found_checkpoint {
  std::filesystem::path folder;
  bool weights_only = false;
  std::string note;  // what was not as expected
};

/// Whether `folder` is itself a checkpoint rather than a folder of them.
[[nodiscard]] inline bool is_checkpoint(std::filesystem::path const& folder) {
  return std::filesystem::exists(folder / checkpoint::manifest_name);
}

/// What autoresume or load_path asks for; nothing for a fresh start. Refuses to start afresh over
/// another run's checkpoints.
[[nodiscard]] inline std::optional<found_checkpoint> checkpoint_to_load(
    train_config const& config) {
  auto const& c = config.checkpoint;
  if (!c.save_folder.empty()) {
    auto const newest = checkpoint::latest(c.save_folder);
    if (newest.folder && c.autoresume) return found_checkpoint{*newest.folder, false, newest.note};
    require(!newest.folder || c.save_overwrite, c.save_folder,
            ": holds checkpoints of an earlier run; continue it with autoresume=true, replace them "
            "with save_overwrite=true, or choose another save_folder");
  }
  if (c.load_path.empty()) return std::nullopt;
  if (is_checkpoint(c.load_path)) return found_checkpoint{c.load_path, c.load_weights_only, {}};
  auto const newest = checkpoint::latest(c.load_path);
  require(newest.folder.has_value(), "load_path ", c.load_path,
          ": there is no checkpoint here; name a folder like ep0-ba100 or one that holds such");
  return found_checkpoint{*newest.folder, c.load_weights_only, newest.note};
}

namespace detail {

[[nodiscard]] inline nlohmann::json frozen_patterns(train_config const& config) {
  auto patterns = nlohmann::json::array();
  for (auto const& pattern : config.optimizer.disable_grad) patterns.push_back(pattern.text);
  for (auto const& name : config.callbacks.frozen_layers) patterns.push_back(name);
  return patterns;
}

/// The settings that decide which data comes next and which states there are; a resumed run must
/// have the same.
[[nodiscard]] inline nlohmann::json order_of(train_config const& config,
                                             std::int64_t samples_in_set) {
  return {{"samples_in_set", samples_in_set},
          {"global_train_batch_size", config.global_train_batch_size},
          {"max_seq_len", config.train_loader.max_seq_len},
          {"shuffle", config.train_loader.shuffle},
          {"shuffle_seed", config.train_loader.shuffle_seed},
          {"shuffle_block_size", config.train_loader.shuffle_block_size.value_or(0)},
          {"shuffle_reach", static_cast<int>(config.train_loader.reach)},
          {"streams", config.train_loader.streams.size()},
          {"train_subset_num_batches", config.train_subset_num_batches},
          {"seed", config.seed},
          {"optimizer", config.optimizer.name},
          {"frozen", frozen_patterns(config)}};
}

inline void require_same_order(nlohmann::json const& saved, nlohmann::json const& now,
                               std::filesystem::path const& folder) {
  for (auto const& [key, value] : now.items())
    require(saved.contains(key) && saved.at(key) == value, folder.string(), ": was trained with ",
            key, " = ", saved.contains(key) ? saved.at(key).dump() : "nothing", ", this run has ",
            value.dump(),
            "; make them equal to continue, or take only the weights with load_weights_only=true");
}

/// Calls f(unit, number of segment) for all that a rank holds.
template <class Stepper, class F>
void for_each_segment(Stepper& step, F&& f) {
  for (auto& entry : step.units())
    for (std::size_t s = 0; s < entry.memory.segments().size(); ++s) f(entry.memory, s);
}

/// Calls f(parameter, global, run, offset, count) for the blocks of the range [begin, end) of a
/// segment, as parameter::for_each_block does; `offset` counts from `begin`.
template <class Segment, class F>
void for_each_block(Segment const& segment, zero::range range, F&& f) {
  segment.for_each_piece(
      range.begin, range.end, [&](auto const& p, index first, index last, index at) {
        p.for_each_block(first, last, [&](index from, index count, index global, index run) {
          f(p, global, run, static_cast<std::size_t>(at - range.begin + from - first),
            static_cast<std::size_t>(count));
        });
      });
}

}  // namespace detail

/// Calls f(name, extents, begin, elements, run) for every slice that this rank saves: elements of
/// the device's memory, and where they lie in the tensor, as rank_writer::add says.
template <class Stepper, class F>
void for_each_saved_slice(Stepper& step, F&& f) {
  detail::for_each_segment(step, [&](auto const& unit, std::size_t s) {
    auto const& segment = unit.layout().segments()[s];
    auto const& memory = unit.segments()[s];
    auto const master = unit.spoken_for(s, memory.master.span());
    auto const values = unit.spoken_for(s, unit.owned_values(s));
    detail::for_each_block(
        segment, unit.spoken_for(s),
        [&](auto const& p, index global, index run, std::size_t offset, std::size_t count) {
          auto const& extents = p.tensor_extents();
          auto const give = [&](std::string const& name, auto elements) {
            f(name, std::span<index const>(extents), global, elements.subspan(offset, count), run);
          };
          if (segment.key.trainable)
            give(p.name, master);
          else
            give(p.name, values);
          for (std::size_t i = 0; i < memory.states.size(); ++i)
            give(concat(p.name, "#", step.state_names()[i]),
                 unit.spoken_for(s, memory.states[i].span()));
        });
  });
}

/// Where the checkpoint of a run goes.
[[nodiscard]] inline checkpoint::save_target target_of(train_config const& config,
                                                       run_state const& state) {
  return {.root = config.checkpoint.save_folder,
          .id = {.epoch = state.epoch, .batch = state.batches},
          .token = static_cast<std::uint64_t>(state.batches)};
}

/// What its manifest says of the run.
[[nodiscard]] inline std::string text_of(train_config const& config, run_state const& state) {
  return nlohmann::json{
      {"batches", state.batches},
      {"epoch", state.epoch},
      {"batch_in_epoch", state.batch_in_epoch},
      {"tokens", state.tokens},
      {"callbacks", state.callbacks},
      {"order", detail::order_of(config, state.samples_in_set)},
      {"model",
       to_hf_json(config.model, config.precision == precision_kind::fp32 ? "float32" : "bfloat16")},
      {"tokenizer", config.tokenizer.name},
      {"run_name", config.run_name}}
      .dump();
}

/// Collective, first: makes the folder into which all ranks write.
inline void prepare_checkpoint(parallel::any_communicator& comm, host::stream& traffic,
                               checkpoint::save_target const& target,
                               parallel::step_hook const& on_step = {}) {
  if (comm.rank() == 0) checkpoint::prepare_save(target, on_step);
  comm.barrier(traffic).wait();
}

/// Collective, last, when this rank's files are on disk: makes one checkpoint of all ranks' files,
/// and removes those that are not kept. `text`: what `text_of` says, on rank 0.
inline void commit_checkpoint(parallel::any_communicator& comm, host::stream& traffic,
                              checkpoint_config const& config,
                              checkpoint::save_target const& target, std::string const& records,
                              std::string const& text, parallel::step_hook const& on_step = {}) {
  auto const all = gather_texts(comm, traffic, records);
  if (comm.rank() == 0) {
    checkpoint::commit(target, all, text, {.on_step = on_step});
    // a run that began anew (save_overwrite) replaces the later checkpoints of the one before it
    if (config.save_overwrite) checkpoint::remove_after(target.root, target.id, on_step);
    if (config.save_num_checkpoints_to_keep > 0)
      checkpoint::prune(target.root, config.save_num_checkpoints_to_keep, on_step);
  }
  comm.barrier(traffic).wait();
}

/// Collective: all ranks write their slices of one checkpoint, from where they lie. Returns its
/// folder. When it returns it is on disk; killed at any moment before, the previous checkpoint is
/// the latest. `on_step` is called before each action on the disk.
template <class Stepper>
std::filesystem::path save_run(Stepper& step, parallel::any_communicator& comm,
                               host::stream& traffic, train_config const& config,
                               run_state const& state, parallel::step_hook const& on_step = {}) {
  auto const target = target_of(config, state);
  prepare_checkpoint(comm, traffic, target, on_step);
  checkpoint::rank_writer writer(target, comm.rank(), {.on_step = on_step});
  for_each_saved_slice(step, [&](std::string const& name, std::span<index const> extents,
                                 index begin, auto elements, index run) {
    parallel::read_on_host(step.device(), elements,
                           [&](auto here) { writer.add(name, extents, begin, here, run); });
  });
  commit_checkpoint(comm, traffic, config.checkpoint, target, writer.finish(),
                    text_of(config, state), on_step);
  return target.folder();
}

/// Fills this rank's memory from a checkpoint made by any layout, after checking this rank's part
/// of it. Returns where the run was; with weights_only the optimizer starts from zero.
template <class Stepper>
run_state load_run(Stepper& step, parallel::any_communicator const& comm,
                   train_config const& config, found_checkpoint const& found,
                   std::int64_t samples_in_set) {
  checkpoint::checkpoint_reader const reader(found.folder);
  auto const& state = reader.state();
  auto const number = [&](char const* key) {
    require(state.contains(key) && state.at(key).is_number_integer(), found.folder.string(),
            ": its state lacks the number ", key);
    return state.at(key).template get<std::int64_t>();
  };
  if (!found.weights_only)
    detail::require_same_order(state.value("order", nlohmann::json::object()),
                               detail::order_of(config, samples_in_set), found.folder);
  reader.verify(comm.rank(), comm.size());
  detail::for_each_segment(step, [&](auto const& unit, std::size_t s) {
    auto const& segment = unit.layout().segments()[s];
    auto const& memory = unit.segments()[s];
    auto const read = [&](std::string const& name, index global, index run, auto elements,
                          std::size_t offset, std::size_t count) {
      parallel::write_from_host(step.device(), elements.subspan(offset, count),
                                [&](auto here) { reader.read_block(name, global, run, here); });
    };
    auto const held = unit.values_divided() ? memory.owned : zero::range{0, segment.size};
    detail::for_each_block(
        segment, held,
        [&](auto const& p, index global, index run, std::size_t offset, std::size_t count) {
          require(reader.at(p.name).extents == p.tensor_extents(), found.folder.string(), ": ",
                  p.name,
                  " has another shape than this model's; use the configuration it was trained "
                  "with");
          read(p.name, global, run, memory.values.span(), offset, count);
        });
    if (!segment.key.trainable) return;
    detail::for_each_block(
        segment, memory.owned,
        [&](auto const& p, index global, index run, std::size_t offset, std::size_t count) {
          read(p.name, global, run, memory.master.span(), offset, count);
          if (found.weights_only) return;
          for (std::size_t i = 0; i < memory.states.size(); ++i)
            read(concat(p.name, "#", step.state_names()[i]), global, run, memory.states[i].span(),
                 offset, count);
        });
  });
  return {.batches = number("batches"),
          .epoch = number("epoch"),
          .batch_in_epoch = number("batch_in_epoch"),
          .samples_in_set = samples_in_set,
          .tokens = number("tokens"),
          .callbacks = state.value("callbacks", nlohmann::json::object())};
}

}  // namespace mpt
