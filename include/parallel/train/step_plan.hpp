// step_plan: a whole step of one rank as a value: the list of everything it enqueues, in order.
//
// lower_step.hpp makes it of a pipeline's plan, the model's units and the choices of the step;
// verify_step.hpp proves of all ranks' lists that they can run; show_step.hpp prints and draws
// them; step_executor.hpp runs them. Nothing here knows a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/pipeline/plan.hpp>
#include <parallel/train/parts.hpp>

namespace parallel::train {

/// The streams of a rank, each one first-in-first-out queue; from `messages` on, one for each link
/// of step_plan::links.
namespace lane {
inline constexpr int compute = 0;
inline constexpr int weights = 1;     // gradients of weights that run beside
inline constexpr int gathers = 2;     // of values before they are used
inline constexpr int reductions = 3;  // of gradients and results, and the gathers after an update
inline constexpr int messages = 4;
}  // namespace lane

enum class action_kind : std::uint8_t {
  prepare,          // zeroes of a unit's gradients what the step's first microbatch will add to
  begin,            // nothing on any other stream runs before
  pass,             // of a part and a microbatch (parts.hpp)
  edge,             // a message to or from another stage, or a copy from one of this rank's
  unshard,          // the values of a unit's use into a buffer of the part's
  reshard,          // the buffer is free
  begin_gradients,  // a buffer, or a leaf of a tree, for the gradients of a part and a microbatch
  end_gradients,    // the leaf is complete
  reduce_scatter,   // out of that buffer, into what the rank owns; it is free after the part's last
  finish_tree,      // of the leaves of a part: its gradients of the step
  reduce,           // a use's gradients of the step, over all data
  join_uses,        // the reduced gradients of a unit's uses
  reduce_tied,      // gradients, over the stages that use the unit
  measure,          // adds a unit's share to the squared norm
  reduce_scalars,   // loss, counts and norm, over all ranks
  clip,             // by what is no common factor, and the factor
  begin_update,     // of a unit of which optimizers need whole tensors: what they will exchange
  exchange_update,  // what they exchange
  update,           // of what the rank owns of a unit
  gather,           // what others own of its values, which an update has changed
  end               // everything is over
};

[[nodiscard]] constexpr std::string_view name_of(action_kind kind) {
  constexpr std::string_view names[] = {"prepare",     "begin",        "pass",
                                        "edge",        "unshard",      "reshard",
                                        "begin_grads", "end_grads",    "reduce_scatter",
                                        "finish_tree", "reduce",       "join_uses",
                                        "reduce_tied", "measure",      "reduce_scalars",
                                        "clip",        "begin_update", "exchange_update",
                                        "update",      "gather",       "end"};
  return names[static_cast<std::size_t>(kind)];
}

/// Whether an action is over only when other ranks have come to it too.
[[nodiscard]] constexpr bool is_collective(action_kind kind) {
  return kind == action_kind::unshard || kind == action_kind::reduce_scatter ||
         kind == action_kind::reduce || kind == action_kind::reduce_tied ||
         kind == action_kind::reduce_scalars || kind == action_kind::exchange_update ||
         kind == action_kind::gather;
}

/// Whether an action is no part of a step's passes: it sums gradients over ranks, or updates.
[[nodiscard]] constexpr bool follows_passes(action_kind kind) {
  return kind == action_kind::reduce_scatter ||
         (kind >= action_kind::reduce && kind <= action_kind::gather);
}

struct action {
  action_kind kind = action_kind::begin;
  pass_kind does = pass_kind::forward;                      // of a pass
  pipeline::step_kind edge = pipeline::step_kind::compute;  // of an edge
  /// Of passes and gradients of a part: the first and the last of this step at this stage. Of
  /// reduce: the last of its bucket.
  bool first = false;
  bool last = false;
  bool beside = false;   // part_pass::beside
  bool awaited = false;  // some later action is `after` this one
  int on = lane::compute;
  part of = embed;                    // the part
  pipeline::microbatch_task at = {};  // microbatch and place of a pass, an edge, a part's gradients
  int unit = -1;                      // of step_plan::units
  int use = -1;                       // of the unit, among those on this rank; -1: all of them
  int buffer = -1;  // of values: step_plan::values; of a microbatch's gradients: ::gradients
  int bucket = -1;  // of reduce: those of one bucket are one call, which the last makes
  int peer = -1;    // of messages
  /// Earlier actions that must be over before this one begins, beside those on its own stream.
  std::vector<int> after = {};

  [[nodiscard]] constexpr bool is_message() const {
    return kind == action_kind::edge && pipeline::is_message(edge);
  }
  /// Of a message, the later of the two stages between which it goes.
  [[nodiscard]] constexpr int boundary() const { return pipeline::boundary_of(edge, at.stage); }
  /// Whether it takes part in an exchange with other ranks.
  [[nodiscard]] constexpr bool exchanges() const { return is_message() || is_collective(kind); }
};

/// What a plan knows of a unit of the model, or of those uses of it that are on the rank.
struct planned_unit {
  std::string name = {};
  int number = 0;                  // among all of the model's: the same on every rank
  std::vector<part> parts = {};    // by use: the part that computes with it
  index values = 0;                // elements to unshard before use; 0: values are whole
  index gradients = 0;             // elements to reduce per microbatch; 0: gradients are whole
  std::size_t gradient_bytes = 0;  // of a reduction; 0: nothing of it is trained
  bool gathered = false;           // after an update, since others own some of it
  bool joined = false;             // its uses add to one gradient, which is reduced once
  bool tied = false;               // ranks of other stages use it too
  bool exchanges_update = false;   // its optimizers need what others hold of whole tensors

  [[nodiscard]] bool is_used_by(part p) const {
    for (part const one : parts)
      if (one == p) return true;
    return false;
  }
};

/// When a step gathers the values that are held whole and that an update has changed.
enum class gather_time : std::uint8_t {
  after_update,  // of its own, so that it ends when they are there
  before_use,    // of the step before: in front of the first pass that reads them
  never          // nothing was updated before, and who comes next gathers
};

/// The choices of a step.
struct step_choices {
  pass mode = pass::training;
  std::size_t bucket_bytes = 0;       // a bucket's reductions begin when so many are complete
  bool reshard_after_forward = true;  // else what was unsharded stays until the end of the step
  bool canonical_tree = false;        // every microbatch's gradients are a leaf of a tree
  bool overlap_weights = false;       // weights' gradients on a stream of their own
  /// Values are unsharded before so many passes that read others: how far ahead of the thread that
  /// enqueues, which a device may hold up. What is resident at once is a matter of buffers: one
  /// more than this of each size, and two at least.
  int prefetch = 0;
  gather_time gathers = gather_time::after_update;
};

struct step_plan {
  int ranks = 1;  // of the pipeline
  int rank = 0;
  int microbatches = 1;
  pass mode = pass::training;
  gather_time gathers = gather_time::after_update;
  std::vector<stage_range> stages = {};               // of this rank
  std::vector<pipeline::chunk_memory> memory = {};    // of each
  std::vector<pipeline::microbatch_task> tasks = {};  // by stage, then microbatch
  std::vector<planned_unit> units = {};
  std::vector<std::pair<int, bool>> links = {};  // by lane: the peer, and whether it is sent to
  std::vector<index> values = {};                // elements of the buffers for unsharded values
  std::vector<index> gradients = {};             // of those for a microbatch's gradients
  std::vector<action> actions = {};

  [[nodiscard]] std::size_t lanes() const { return lane::messages + links.size(); }
  [[nodiscard]] std::size_t chunk_of(pipeline::microbatch_task const& at) const {
    return static_cast<std::size_t>(at.stage / ranks);
  }
  /// Where the same microbatch lives at the stage before, which is this rank's too.
  [[nodiscard]] pipeline::microbatch_task const& below(pipeline::microbatch_task const& at) const {
    return tasks[static_cast<std::size_t>((at.stage - 1) / ranks * microbatches + at.microbatch)];
  }
};

/// "gathers", "weights", "from 1", "to 0".
[[nodiscard]] inline std::string name_of_lane(step_plan const& of, int number) {
  constexpr std::string_view names[] = {"compute", "weights", "gathers", "reductions"};
  if (number < lane::messages) return std::string(names[static_cast<std::size_t>(number)]);
  auto const& [peer, sends] = of.links[static_cast<std::size_t>(number - lane::messages)];
  return concat(sends ? "to " : "from ", peer);
}

/// "backward of part 3, microbatch 1", "unshard block.2 into buffer 0": what an action does.
[[nodiscard]] inline std::string text_of(step_plan const& of, action const& a) {
  using enum action_kind;
  auto const of_part = [&] { return concat(" part ", a.of, ", microbatch ", a.at.microbatch); };
  auto const of_unit = [&] {
    auto const& name = of.units[static_cast<std::size_t>(a.unit)].name;
    return a.use > 0 ? concat(' ', name, " (use ", a.use, ')') : concat(' ', name);
  };
  switch (a.kind) {
    case pass: return concat(name_of(a.does), of_part());
    case edge:
      return concat(pipeline::name_of(a.edge), " of stage ", a.at.stage, ", microbatch ",
                    a.at.microbatch);
    case unshard: return concat("unshard", of_unit(), " for part ", a.of, " into ", a.buffer);
    case reshard: return concat("reshard part ", a.of, " in ", a.buffer);
    case begin_gradients:
    case end_gradients: return concat(name_of(a.kind), of_part());
    case reduce_scatter:
      return concat("reduce_scatter", of_unit(), ", microbatch ", a.at.microbatch, " from ",
                    a.buffer);
    case finish_tree: return concat("finish_tree part ", a.of);
    case reduce: return concat("reduce", of_unit(), " in bucket ", a.bucket);
    case begin:
    case reduce_scalars:
    case clip:
    case end: return std::string(name_of(a.kind));
    default: return concat(name_of(a.kind), of_unit());
  }
}

}  // namespace parallel::train
