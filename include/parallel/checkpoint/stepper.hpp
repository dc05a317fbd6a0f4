// Saves and loads what a stepper (parallel/train/stepper.hpp) trains: master weights, frozen values
// and optimizer states as named slices, and the state of the run.
//
//   save(step, world, exchanges, "run", {.batches = 100});             all ranks, between two steps
//   auto const found = resume(step, world, exchanges, "run");          or else step.initialise(1)
//
// Every rank writes the elements that it accounts for, an equal part of everything whatever the
// layout, so nothing is written twice; it reads the same part and gets the rest from the other
// ranks, so any number of ranks in any layout and with any ZeRO stage can continue. A tensor has
// the parameter's name, an optimizer state the name "name#state". Cost: what is saved is written,
// hashed and read once; nothing is copied where the host reaches the device's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>
#include <parallel/checkpoint/sound.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/zero/level.hpp>

namespace parallel::checkpoint {

/// The state of a run. Parameters and optimizer are the rest of what it needs to continue.
struct run_state {
  index batches = 0;  ///< finished batches
  index epoch = 0;    ///< epoch of the next batch
  bool best = false;  ///< the best so far: the link `best` names its checkpoint, which is kept
  nlohmann::json program_state =
      nlohmann::json::object();  ///< what else the program stores, by name
};

/// The content that is saved or loaded. If the optimizer's states are not loaded, they stay as they
/// are, at first zero. A checkpoint of weights alone can only be loaded as weights.
enum class content : std::uint8_t { everything, weights };

/// The content that is saved, and the rule for removing other checkpoints of the folder.
struct save_options {
  content saved = content::everything;
  index keep = 0;  ///< how many of the newest stay; 0: all
  /// Checkpoints of another run, over which this run began anew: removed when its first one exists.
  std::vector<checkpoint_id> replaces = {};
  action_hook on_action = {};  ///< called before each action on the disk
  index keep_every = 0;        ///< checkpoints of every keep_every-th batch stay too; 0: none
  claim_id owner = {};  ///< the claim of the checkpoints, the same on every rank; default: none
};

namespace detail {

/// Calls f(unit, number of segment) for all segments that a rank holds.
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
      range.begin, range.end, [&](auto const& p, index first, index last, index position) {
        p.for_each_block(first, last, [&](index from, index count, index global, index run) {
          f(p, global, run, static_cast<std::size_t>(position - range.begin + from - first),
            static_cast<std::size_t>(count));
        });
      });
}

/// The name of the tensor of an optimizer state.
[[nodiscard]] inline std::string state_tensor(std::string const& parameter,
                                              std::string_view state) {
  return concat(parameter, "#", state);
}

/// The manifest's text for a run's state.
[[nodiscard]] inline std::string to_string(run_state const& state) {
  require(state.program_state.is_object() && !state.program_state.contains("batches") &&
              !state.program_state.contains("epoch"),
          "run_state::program_state must be a JSON object without \"batches\" and \"epoch\", which "
          "have "
          "their own members");
  auto members = state.program_state;
  members["batches"] = state.batches;
  members["epoch"] = state.epoch;
  return members.dump();
}

}  // namespace detail

/// Calls f(name, extents, begin, elements, run) for every slice that this rank saves: elements in
/// the device's memory, and their range in the tensor, as in rank_writer::add.
template <class Stepper, class F>
void for_each_saved_slice(Stepper& step, F&& f, content saved = content::everything) {
  detail::for_each_segment(step, [&](auto const& unit, std::size_t s) {
    auto const& segment = unit.layout().segments()[s];
    auto const& memory = unit.segments()[s];
    auto const master = unit.primary_range(s, memory.master.span());
    auto const values = unit.primary_range(s, unit.owned_values(s));
    detail::for_each_block(
        segment, unit.primary_range(s),
        [&](auto const& p, index global, index run, std::size_t offset, std::size_t count) {
          auto const& extents = p.tensor_extents();
          auto const call_with = [&](std::string const& name, auto elements) {
            f(name, std::span<index const>(extents), global, elements.subspan(offset, count), run);
          };
          if (segment.key.trainable)
            call_with(p.name, master);
          else
            call_with(p.name, values);
          if (saved == content::weights) return;
          for (std::size_t i = 0; i < memory.states.size(); ++i)
            call_with(detail::state_tensor(p.name, step.state_names(segment.key.group)[i]),
                      unit.primary_range(s, memory.states[i].span()));
        });
  });
}

/// Bytes of the slices that this rank saves.
template <class Stepper>
[[nodiscard]] std::size_t bytes_to_save(Stepper& step, content saved = content::everything) {
  std::size_t bytes = 0;
  for_each_saved_slice(
      step, [&](auto const&, auto, auto, auto elements, auto) { bytes += elements.size_bytes(); },
      saved);
  return bytes;
}

/// The target of a run's checkpoint: "ep{epoch}-ba{batches}" in `root`.
[[nodiscard]] inline save_target target_of(std::filesystem::path root, run_state const& state,
                                           claim_id owner = {}) {
  require(state.batches >= 0 && state.epoch >= 0, "a run's state says ", state.batches,
          " batches and epoch ", state.epoch, "; both must be 0 or more");
  return {.root = std::move(root),
          .id = {.epoch = state.epoch, .batch = state.batches},
          .token = owner.generation > 0 ? owner.token : static_cast<std::uint64_t>(state.batches),
          .generation = owner.generation};
}

/// Collective, first: creates the folder into which all ranks write.
template <class Comm, class Exchange>
void begin_save(Comm& world, Exchange& exchanges, save_target const& target,
                action_hook const& on_action = {}) {
  if (world.rank() == 0) prepare_save(target, on_action);
  world.barrier(exchanges).wait();
}

/// Writes the slices of this rank into the existing folder. Returns the records that a checkpoint
/// is made of, when the slices are on disk.
template <class Stepper>
[[nodiscard]] std::string write_slices(Stepper& step, save_target const& target, index rank,
                                       save_options const& options = {}) {
  rank_writer writer(target, rank, {.on_action = options.on_action});
  auto const write = [&](std::string const& name, std::span<index const> extents, index begin,
                         auto elements, index run) {
    read_on_host(step.device(), elements,
                 [&](auto on_host) { writer.add(name, extents, begin, on_host, run); });
  };
  for_each_saved_slice(step, write, options.saved);
  return writer.finish();
}

/// For rank 0, when all ranks' files are on disk: commits them as one checkpoint, and removes the
/// checkpoints that are not kept. `records`: what the ranks' writers returned, by rank. It
/// exchanges nothing, so any thread of rank 0 may call it.
inline void publish_save(save_target const& target, std::vector<std::string> const& records,
                         run_state const& state, save_options const& options) {
  commit(target, records, detail::to_string(state), {.on_action = options.on_action});
  if (state.best) point_link(target, "best", options.on_action);
  if (!options.replaces.empty()) {
    auto const is_replaced = [&](std::string const& name) {
      auto const id = checkpoint_id::parse(name);
      return id && std::ranges::count(options.replaces, *id) > 0;
    };
    std::error_code nowhere;
    if (auto const best = target.root / "best";
        !state.best && is_replaced(std::filesystem::read_symlink(best, nowhere).filename()))
      std::filesystem::remove(best);
    remove_folders(
        target.root,
        [&](checkpoint_id id) {
          return id != target.id && std::ranges::count(options.replaces, id);
        },
        options.on_action);
  }
  if (options.keep > 0) prune(target.root, options.keep, options.on_action, options.keep_every);
}

/// Collective, between two steps: writes one checkpoint, every rank its slices. Returns the
/// checkpoint's folder. When it returns, the checkpoint is on disk; if it is killed before, the
/// previous one is the latest.
///
///     save(stepper, world, exchanges, "run", {.batches = 100}, {.keep = 2});
///
/// - `step`: the stepper; session.stepper() gives a session's
/// - `world`: a communicator of all ranks that train
/// - `exchanges`: the stream for the exchanges, as in a step
/// - `root`: the folder of the run's checkpoints; the checkpoint is its folder "ep0-ba100". The
///   same on every rank, as is `state`
/// - `state`: finished batches, epoch, and what else the program needs to continue
template <class Stepper, class Comm, class Exchange>
std::filesystem::path save(Stepper& step, Comm& world, Exchange& exchanges,
                           std::filesystem::path const& root, run_state const& state,
                           save_options const& options = {}) {
  auto const target = target_of(root, state, options.owner);
  step.agree_to_save(exchanges, concat(target.folder().string(),
                                       options.saved == content::weights ? ", weights alone" : ""));
  begin_save(world, exchanges, target, options.on_action);
  auto const records =
      gather_texts_to_root(world, exchanges, write_slices(step, target, world.rank(), options));
  if (world.rank() == 0) publish_save(target, records, state, options);
  world.barrier(exchanges).wait();
  return target.folder();
}

/// Collective over the ranks of `step`: fills their memory from `source`, which gives values by
/// tensor: at(name).extents, and read_block(name, begin, run, out) as in checkpoint_reader.
/// `location` names it in messages. Cost: the ranks read every element once, even what they hold
/// whole or twice, and exchange it then; only neighbours along the tensor axis read what they
/// share.
template <class Stepper, class Exchange, class Source>
void load_from(Stepper& step, Exchange& exchanges, Source const& source,
               std::string const& location, content loaded = content::everything) {
  detail::for_each_segment(step, [&](auto const& unit, std::size_t s) {
    auto const& segment = unit.layout().segments()[s];
    auto const& memory = unit.segments()[s];
    auto const own_range = unit.position().filled(segment.size);
    auto const first = static_cast<std::size_t>(own_range.begin - memory.owned.begin);
    detail::for_each_block(
        segment, own_range,
        [&](auto const& p, index global, index run, std::size_t offset, std::size_t count) {
          require(source.at(p.name).extents == p.tensor_extents(), location, ": ", p.name, " is ",
                  shape_text(source.at(p.name).extents), ", the model's is ",
                  shape_text(p.tensor_extents()), "; use the configuration it was trained with");
          auto const read = [&](std::string const& name, auto owned) {
            write_from_host(step.device(), owned.subspan(first + offset, count),
                            [&](auto on_host) { source.read_block(name, global, run, on_host); });
          };
          auto const values = unit.owned_values(s);
          read(p.name, values);
          if (!segment.key.trainable) return;
          if constexpr (!std::is_same_v<decltype(values), decltype(memory.master.span()) const>)
            read(p.name, memory.master.span());  // otherwise the master weights are the values
          if (loaded == content::weights) return;
          for (std::size_t i = 0; i < memory.states.size(); ++i) {
            auto const name = detail::state_tensor(p.name, step.state_names(segment.key.group)[i]);
            if constexpr (requires { source.contains(name); })
              require(source.contains(name), location, ": has no tensor \"", name,
                      "\", a state of ",
                      "the optimizer: it was saved by another one, or holds weights alone; give "
                      "the same optimizer, or load content::weights");
            read(name, memory.states[i].span());
          }
        });
  });
  step.share_filled(exchanges, loaded == content::everything);
}

namespace detail {

/// Throws when a checkpoint has parameters that the model of `step` lacks.
template <class Stepper>
void require_no_others(Stepper const& step, checkpoint_reader const& reader) {
  auto const names = step.parameter_names();
  for (auto const& [name, tensor] : reader.tensors())
    require(
        names.contains(name) || name.find('#') != std::string::npos, reader.folder().string(),
        ": has the tensor \"", name, "\", which the model has not: it is another model's; ",
        "give the one that was saved, or load content::weights, which takes what the model has");
}

}  // namespace detail

/// Collective over the ranks of `step`: fills their memory from a checkpoint of any layout. Returns
/// the state of the run. From a checkpoint with parameters that the model lacks only the weights
/// can be loaded; states of other optimizers are left out.
///
///     auto const sound = find_sound(world, exchanges, "run/ep0-ba100", if_damaged::stop);
///     auto const state = load(stepper, exchanges, sound.reader);
///
/// - `reader`: the checkpoint, which the ranks have checked (find_sound)
/// - `loaded`: everything, or the weights alone; then the optimizer's states stay as they are
template <class Stepper, class Exchange>
run_state load(Stepper& step, Exchange& exchanges, checkpoint_reader const& reader,
               content loaded = content::everything) {
  auto const location = reader.folder().string();
  run_state state{.program_state = reader.state()};
  auto const take = [&](char const* key) {
    require(state.program_state.contains(key) && state.program_state.at(key).is_number_integer(),
            location, ": its state lacks the number ", key);
    auto const number = state.program_state.at(key).template get<index>();
    state.program_state.erase(key);
    return number;
  };
  state.batches = take("batches");
  state.epoch = take("epoch");
  if (loaded == content::everything) detail::require_no_others(step, reader);
  load_from(step, exchanges, reader, location, loaded);
  return state;
}

/// The result of `resume`.
struct resumed_run : run_state {
  std::string note;  ///< what was unexpected, for the user; or empty
};

/// Collective: loads the latest checkpoint of `root` in which no rank finds damage; rank 0 chooses.
/// Returns nothing when none was ever saved there: the caller initialises. Throws when none of the
/// existing ones is sound. Damaged ones that it skips are set aside (if_damaged). Parameters as in
/// `save`.
///
///     auto const resumed = resume(stepper, world, exchanges, "run");
///     if (!resumed) stepper.initialise(1);
template <class Stepper, class Comm, class Exchange>
std::optional<resumed_run> resume(Stepper& step, Comm& world, Exchange& exchanges,
                                  std::filesystem::path const& root,
                                  content loaded = content::everything) {
  step.agree_to_resume(exchanges);
  latest_checkpoint newest;
  if (world.rank() == 0) newest = latest(root);
  auto const folder =
      broadcast_text(world, exchanges, newest.folder.value_or(std::filesystem::path()).string());
  auto note = broadcast_text(world, exchanges, newest.note);
  require(!folder.empty() || note.empty(), root.string(), ": ", note,
          "; remove what is there to begin anew");
  if (folder.empty()) return std::nullopt;
  auto const sound = find_sound(world, exchanges, folder, if_damaged::set_aside);
  if (!sound.note.empty()) note += concat(note.empty() ? "" : "; ", sound.note);
  return resumed_run{load(step, exchanges, sound.reader, loaded), note};
}

}  // namespace parallel::checkpoint
