// step_plan: one step of one rank as a value: the list of all actions that the rank enqueues, in
// their order.
//
// lower_step.hpp makes the list from a pipeline's plan, the model's units and the choices of the
// step; verify_step.hpp proves that the lists of all ranks can run; show_step.hpp prints and draws
// them; run_step.hpp runs them. This file depends on no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/pipeline/plan.hpp>
#include <parallel/train/parts.hpp>

namespace parallel::train {

/// The numbers of a rank's streams. A stream is a first-in-first-out queue. The streams from
/// `messages` on each carry the messages of one link of step_plan::links.
namespace lane {
/// The passes.
inline constexpr int compute = 0;
inline constexpr int weights = 1;  ///< gradients of weights that are computed beside other passes
inline constexpr int gathers = 2;  ///< unsharding and gathering of values before their use
/// Reductions of gradients and results, and gathers after an update.
inline constexpr int reductions = 3;
/// The first of the streams of messages.
inline constexpr int messages = 4;
}  // namespace lane

/// What an action of a step does.
enum class action_kind : std::uint8_t {
  prepare,  // zeroes those gradients of a unit to which the step's first microbatch will add
  begin,    // no action on another stream runs before this one
  pass,     // a pass of one model part and one microbatch (parts.hpp)
  edge,     // a message to or from another stage, or a copy between two stages of this rank
  unshard,  // puts the values of a unit's use into a buffer of its model part
  reshard,  // frees the buffer of a model part's unsharded values
  begin_gradients,  // opens a buffer, or a leaf of a tree, for the gradients of a part and a
                    // microbatch
  end_gradients,    // completes what begin_gradients has opened
  /// Sums the gradients in a buffer of a part over ranks into those that the rank owns. The
  /// last reduce_scatter of a part frees the buffer.
  reduce_scatter,
  finish_tree,     // sums the leaves of a part: its gradients of the step
  reduce,          // sums the gradients of a bucket of uses over all data ranks, in one call
  join_uses,       // adds up the reduced gradients of a unit's uses
  reduce_tied,     // sums gradients over the stages that use the unit
  measure,         // adds a unit's share to the squared norm
  reduce_scalars,  // sums loss, counts and norm over all ranks
  clip,            // clips by rules that are not one common factor, and computes the common factor
  begin_update,  // prepares what the optimizers of a unit exchange because they need whole tensors
  exchange_update,  // exchanges what begin_update has prepared
  update,           // updates what the rank owns of a unit
  gather,           // gathers the values of a unit that other ranks own and an update has changed
  end               // every action is complete
};

[[nodiscard]] constexpr std::string_view to_string(action_kind kind) {
  constexpr std::string_view names[] = {"prepare",     "begin",        "pass",
                                        "edge",        "unshard",      "reshard",
                                        "begin_grads", "end_grads",    "reduce_scatter",
                                        "finish_tree", "reduce",       "join_uses",
                                        "reduce_tied", "measure",      "reduce_scalars",
                                        "clip",        "begin_update", "exchange_update",
                                        "update",      "gather",       "end"};
  return names[static_cast<std::size_t>(kind)];
}

/// Whether an action is complete only after other ranks have reached it too.
[[nodiscard]] constexpr bool is_collective(action_kind kind) {
  return kind == action_kind::unshard || kind == action_kind::reduce_scatter ||
         kind == action_kind::reduce || kind == action_kind::reduce_tied ||
         kind == action_kind::reduce_scalars || kind == action_kind::exchange_update ||
         kind == action_kind::gather;
}

/// Whether an action does not belong to a step's passes: it sums gradients over ranks, or updates.
[[nodiscard]] constexpr bool follows_passes(action_kind kind) {
  return kind == action_kind::reduce_scatter ||
         (kind >= action_kind::reduce && kind <= action_kind::gather);
}

/// A use of a unit, among those on this rank. Use 0 of a unit whose uses are joined stands for all.
struct unit_use {
  int unit = 0;  ///< index in step_plan::units
  int use = 0;
};

/// One task of a rank in a step, with the earlier ones that it awaits.
struct action {
  action_kind kind = action_kind::begin;
  pass_kind pass = pass_kind::forward;                      ///< for actions of kind pass
  pipeline::step_kind edge = pipeline::step_kind::compute;  ///< for actions of kind edge
  /// Whether a pass, or an action on a part's gradients, is the first one of this step at this
  /// stage; for sums of joined gradients, the first of all their uses.
  bool first = false;
  bool is_overlapped = false;  ///< the same as part_pass::is_overlapped of the pass
  bool is_awaited = false;     ///< a later action has this one among its dependencies
  int lane = lane::compute;    ///< that of a message determines its peer too, by link_at
  part model_part = embed;     ///< the part that the action is for
  /// The microbatch and memory of a pass, an edge or a part's gradients.
  pipeline::microbatch_task task = {};
  std::optional<int> unit = {};  ///< index in step_plan::units
  std::optional<int> use =
      {};  ///< the use of the unit, among those on this rank; none: all of them
  /// The index in step_plan::values, for actions on values, or in step_plan::gradients, for actions
  /// on one microbatch's gradients; none: values that stay in their place, or a leaf of a tree.
  std::optional<int> buffer = {};
  std::vector<unit_use> bucket = {};  ///< for actions of kind reduce
  /// Earlier actions that must be complete before this one begins, besides those on its own stream.
  std::vector<int> dependencies = {};

  [[nodiscard]] constexpr bool is_message() const {
    return kind == action_kind::edge && pipeline::is_message(edge);
  }
  /// The later of the two stages between which a message goes.
  [[nodiscard]] constexpr int boundary() const { return pipeline::boundary_of(edge, task.stage); }
  /// Whether the action takes part in an exchange with other ranks.
  [[nodiscard]] constexpr bool exchanges() const { return is_message() || is_collective(kind); }
};

/// Describes a unit of the model in a plan, or only the uses of the unit on this rank.
struct planned_unit {
  std::string name = {};
  int number = 0;                ///< its number among the model's units: the same on every rank
  std::vector<part> parts = {};  ///< by use: the part that computes with the unit
  index values = 0;     ///< elements to unshard before use; 0: the rank holds the values whole
  index gradients = 0;  ///< elements to reduce per microbatch; 0: gradients are held whole
  std::size_t gradient_bytes = 0;  ///< bytes of a reduction; 0: nothing of the unit is trained
  bool is_gathered =
      false;               ///< an update changes values that other ranks own, so they are gathered
  bool is_joined = false;  ///< all its uses add to one gradient, which is reduced once
  bool is_tied = false;    ///< ranks of other stages use the unit too
  bool exchanges_update = false;  ///< its optimizers need what other ranks hold of whole tensors
  int expert_ranks = 1;  ///< neighbours that divide its experts, and so what its exchanges are with

  [[nodiscard]] bool is_used_by(part p) const {
    for (part const user : parts)
      if (user == p) return true;
    return false;
  }
};

/// When a step gathers the values that are held whole and that an update has changed.
enum class gather_time : std::uint8_t {
  after_update,  // in the step that has changed them, before it ends
  before_use,    // in the step after that, before the first pass that reads them
  none           // not in this step: no update precedes it, and the next step gathers
};

/// The choices of a step.
struct step_choices {
  pass mode = pass::training;
  std::size_t bucket_bytes = 0;  ///< a bucket's reductions begin when this many bytes are complete
  bool reshard_after_forward = true;  ///< false: unsharded values stay until the end of the step
  bool canonical_tree = false;        ///< the gradients of every microbatch are a leaf of a tree
  bool overlap_weights = false;  ///< gradients of weights are computed on a stream of their own
  /// The number of later value-reading passes whose values are already being unsharded when a pass
  /// is enqueued. There are prefetch + 1 buffers of each size, and at least two, which limit the
  /// values that are unsharded at once.
  int prefetch = 0;
  gather_time gathers = gather_time::after_update;
};

struct step_plan {
  int ranks = 1;  ///< ranks of the pipeline
  int rank = 0;
  int microbatches = 1;
  pass mode = pass::training;
  gather_time gathers = gather_time::after_update;
  std::vector<stage_range> stages = {};               ///< the stages of this rank
  std::vector<pipeline::chunk_memory> memory = {};    ///< the memory of each stage
  std::vector<pipeline::microbatch_task> tasks = {};  ///< by stage, then microbatch
  std::vector<planned_unit> units = {};
  /// By stream of messages: the peer, and whether this rank sends to it.
  std::vector<std::pair<int, bool>> links = {};
  std::vector<index> values = {};     ///< elements of each buffer for unsharded values
  std::vector<index> gradients = {};  ///< elements of each buffer for one microbatch's gradients
  std::vector<action> actions = {};

  [[nodiscard]] std::size_t lanes() const { return lane::messages + links.size(); }
  [[nodiscard]] std::size_t chunk_of(pipeline::microbatch_task const& task) const {
    return static_cast<std::size_t>(task.stage / ranks);
  }
  /// The link whose messages a stream carries.
  [[nodiscard]] std::pair<int, bool> const& link_at(int lane) const {
    return links[static_cast<std::size_t>(lane - lane::messages)];
  }
  /// The unit that an action is for.
  [[nodiscard]] planned_unit const& unit_of(action const& a) const {
    return units[static_cast<std::size_t>(a.unit.value())];
  }
  /// The task of the same microbatch at the previous stage, which is this rank's too.
  [[nodiscard]] pipeline::microbatch_task const& previous_stage_task(
      pipeline::microbatch_task const& task) const {
    return tasks[static_cast<std::size_t>((task.stage - 1) / ranks * microbatches +
                                          task.microbatch)];
  }
};

/// The name of a stream: "gathers", "weights", "from 1", "to 0".
[[nodiscard]] inline std::string name_of_lane(step_plan const& plan, int number) {
  constexpr std::string_view names[] = {"compute", "weights", "gathers", "reductions"};
  if (number < lane::messages) return std::string(names[static_cast<std::size_t>(number)]);
  auto const& [peer, sends] = plan.link_at(number);
  return concat(sends ? "to " : "from ", peer);
}

/// Describes an action: "backward of part 3, microbatch 1", "unshard block.2 into buffer 0".
[[nodiscard]] inline std::string to_string(step_plan const& plan, action const& a) {
  using enum action_kind;
  auto const part_text = [&] {
    return concat(" part ", a.model_part, ", microbatch ", a.task.microbatch);
  };
  auto const use_text = [&](int unit, int use) {
    auto const& name = plan.units[static_cast<std::size_t>(unit)].name;
    return use > 0 ? concat(' ', name, " (use ", use, ')') : concat(' ', name);
  };
  auto const unit_text = [&] { return use_text(a.unit.value(), a.use.value_or(0)); };
  switch (a.kind) {
    case pass: return concat(to_string(a.pass), part_text());
    case edge:
      return concat(pipeline::to_string(a.edge), " of stage ", a.task.stage, ", microbatch ",
                    a.task.microbatch);
    case unshard:
      return concat("unshard", unit_text(), " for part ", a.model_part, " into ", *a.buffer);
    case reshard: return concat("reshard part ", a.model_part, " in ", *a.buffer);
    case begin_gradients:
    case end_gradients: return concat(to_string(a.kind), part_text());
    case reduce_scatter:
      return concat("reduce_scatter", unit_text(), ", microbatch ", a.task.microbatch, " from ",
                    *a.buffer);
    case finish_tree: return concat("finish_tree part ", a.model_part);
    case reduce: {
      std::string out;
      for (auto const& [unit, use] : a.bucket)
        out += concat(out.empty() ? "" : ",", use_text(unit, use));
      return concat("reduce", out);
    }
    case begin:
    case reduce_scalars:
    case clip:
    case end: return std::string(to_string(a.kind));
    default: return concat(to_string(a.kind), unit_text());
  }
}

}  // namespace parallel::train
