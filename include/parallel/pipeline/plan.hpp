// plan: a schedule lowered to the steps of one rank: its computations, the messages to and from
// neighbouring ranks, copies between two stages of its own, and the memory of each.
//
// A plan is a pure value: order and memory are fixed before anything runs.
// train/step/lower_step.hpp makes of it the list of all actions of a training step, which is proved
// and run.
//
// Memory of a stage. A *slot* holds the activations that a forward pass keeps, the stage's output
// and its gradient; a microbatch task takes the slot with its forward pass and releases it after
// its weight gradient (forward-only: when the output has been sent). A *boundary buffer* holds the
// stage's input and its gradient; a microbatch task takes it when the receive of its input begins
// and releases it when the gradient has been sent. There is one boundary buffer more than slots, so
// that the next input is received, and the last gradient sent, while the rank computes: a boundary
// buffer is two activations, a slot is all that a stage's blocks keep.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

/// What a step of a rank does: a computation, half of a message, or a copy between two stages of
/// the rank.
enum class step_kind : std::uint8_t {
  compute,
  receive_activation,  // into the stage's input
  send_activation,     // the stage's output
  receive_gradient,    // into the gradient of the stage's output
  send_gradient,       // the gradient of the stage's input
  copy_activation,     // from the output of the stage before, on this rank, into the stage's input
  copy_gradient        // the gradient of the input, into that of the output of the stage before
};

[[nodiscard]] constexpr std::string_view to_string(step_kind kind) {
  constexpr std::string_view names[] = {"compute",          "receive_activation", "send_activation",
                                        "receive_gradient", "send_gradient",      "copy_activation",
                                        "copy_gradient"};
  return names[static_cast<std::size_t>(kind)];
}

/// Whether the step sends a message.
[[nodiscard]] constexpr bool sends(step_kind kind) {
  return kind == step_kind::send_activation || kind == step_kind::send_gradient;
}
/// Whether the step receives a message.
[[nodiscard]] constexpr bool receives(step_kind kind) {
  return kind == step_kind::receive_activation || kind == step_kind::receive_gradient;
}
/// Whether the step is half of a message.
[[nodiscard]] constexpr bool is_message(step_kind kind) { return sends(kind) || receives(kind); }

/// The boundary that a message to or from `stage` crosses: the later of the two stages.
[[nodiscard]] constexpr int boundary_of(step_kind kind, int stage) {
  bool const from_above = kind == step_kind::receive_activation || kind == step_kind::send_gradient;
  return from_above ? stage : stage + 1;
}

/// One microbatch at one stage, with its buffers there.
struct microbatch_task {
  int stage = 0;
  int microbatch = 0;
  int slot = 0;
  int boundary = 0;  ///< stage 0 has no input and no boundary buffer

  friend constexpr bool operator==(microbatch_task const&, microbatch_task const&) = default;
};

/// A computation, message or copy of one rank.
struct step {
  step_kind kind = step_kind::compute;
  action_kind computes = action_kind::forward;  ///< only for kind compute
  microbatch_task task = {};
  int peer = -1;  ///< only for messages: the rank at the other end
  /// Only for kind compute, among this rank's computations at this stage: the first and last
  /// forward pass, or the first and last that adds to the gradients of the parameters (W or B).
  bool first = false;
  bool last = false;
  /// Earlier steps of this rank that must finish before this step begins, besides those before it
  /// on the same stream. Computations and copies share a stream; messages have one for each peer
  /// and direction.
  std::vector<int> dependencies = {};
};

/// The memory that a rank needs for one of its stages.
struct chunk_memory {
  int stage = 0;
  int slots = 0;
  int boundaries = 0;
};

struct plan {
  int ranks = 1;
  int rank = 0;
  int microbatches = 1;
  std::vector<chunk_memory> chunks = {};    ///< in the order of the model
  std::vector<microbatch_task> tasks = {};  ///< by chunk, then microbatch
  std::vector<step> steps = {};             ///< in the order in which they are enqueued

  /// The task, with its buffers, of a microbatch at a stage that this rank holds.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR microbatch_task const& task_of(int stage,
                                                                           int microbatch) const {
    return tasks[static_cast<std::size_t>(stage / ranks * microbatches + microbatch)];
  }
};

namespace detail {

/// Buffer numbers: the one released longest ago is taken first.
class pool {
 public:
  PARALLELLM_VECTOR_CONSTEXPR explicit pool(int count) {
    for (int i = 0; i < count; ++i) free_.push_back(i);
  }
  [[nodiscard]] constexpr bool empty() const { return next_ == free_.size(); }
  PARALLELLM_VECTOR_CONSTEXPR int take() { return free_[next_++]; }
  PARALLELLM_VECTOR_CONSTEXPR void release(int number) { free_.push_back(number); }

 private:
  std::vector<int> free_;
  std::size_t next_ = 0;
};

class lowering {
 public:
  PARALLELLM_VECTOR_CONSTEXPR lowering(schedule const& source, int rank)
      : schedule_(source), own_actions_(list(rank)) {
    require(0 <= rank && rank < source.ranks, "a pipeline of ", source.ranks, " ranks has no rank ",
            rank);
    out_.ranks = source.ranks;
    out_.rank = rank;
    out_.microbatches = source.microbatches;
    for (int chunk = 0; chunk < source.stages_per_rank; ++chunk) {
      out_.chunks.push_back(memory_of(source.stage_of(rank, chunk)));
      chunks_.emplace_back(out_.chunks.back());
      for (int m = 0; m < source.microbatches; ++m)
        out_.tasks.push_back({out_.chunks.back().stage, m, -1, -1});
    }
    task_states_.resize(out_.tasks.size());
    for (int peer = 0; peer < source.ranks; ++peer)
      if (peer != rank && is_neighbour(peer)) incoming_.push_back(messages_from(peer));
  }

  PARALLELLM_VECTOR_CONSTEXPR plan run() {
    for (action const& a : own_actions_) {
      receive();
      if (a.kind == action_kind::forward)
        forward(a.stage, a.microbatch);
      else
        backward(a);
    }
    for (step& s : out_.steps) s.task = out_.task_of(s.task.stage, s.task.microbatch);
    mark_ends();
    return std::move(out_);
  }

 private:
  static constexpr int none = -1;

  struct chunk_state {
    PARALLELLM_VECTOR_CONSTEXPR explicit chunk_state(chunk_memory const& m)
        : slots(m.slots),
          boundaries(m.boundaries),
          slot_users(static_cast<std::size_t>(m.slots)),
          boundary_users(static_cast<std::size_t>(m.boundaries)) {}
    pool slots, boundaries;
    std::vector<std::vector<int>> slot_users, boundary_users;  // the steps that end the last use
  };

  /// The steps of one microbatch task.
  struct task_state {
    int forward = none, backward = none;
    int arrival = none, departure = none;                    // of the activation
    int gradient_arrival = none, gradient_departure = none;  // of the gradient
  };

  struct message {
    step_kind kind = step_kind::compute;
    int stage = 0;
    int microbatch = 0;
  };
  struct queue {
    int peer = 0;
    std::vector<message> order = {};
    std::size_t next = 0;
  };

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::vector<action> const& list(int rank) const {
    return schedule_.by_rank[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] constexpr bool is_last_stage(int stage) const {
    return stage == schedule_.stages() - 1;
  }
  /// Whether this rank holds the stage, if there is such a stage.
  [[nodiscard]] constexpr bool holds(int stage) const {
    return schedule_.rank_of(stage) == out_.rank;
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool receives_input(int stage) const {
    return stage > 0 && !holds(stage - 1);
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool sends_output(int stage) const {
    return !is_last_stage(stage) && !holds(stage + 1);
  }

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR chunk_memory memory_of(int stage) const {
    int const end_stage =
        !schedule_.forward_only || is_last_stage(stage) || !holds(stage + 1) ? stage : stage + 1;
    int live = 0;
    int peak = 0;
    for (action const& a : own_actions_) {
      bool const begins = a.kind == action_kind::forward && a.stage == stage;
      bool const ends =
          a.stage == end_stage && (schedule_.forward_only || a.kind == action_kind::backward ||
                                   a.kind == action_kind::backward_weight);
      if (begins) peak = std::max(peak, ++live);
      if (ends) --live;
    }
    int const slots = peak + (schedule_.forward_only && sends_output(stage) ? 1 : 0);
    int const boundaries =
        stage == 0 ? 0 : (schedule_.forward_only ? 1 : peak) + (receives_input(stage) ? 1 : 0);
    return {stage, std::min(slots, schedule_.microbatches),
            std::min(boundaries, schedule_.microbatches)};
  }

  /// Whether a peer holds a stage next to a stage of this rank.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool is_neighbour(int peer) const {
    return std::ranges::any_of(out_.chunks, [&](chunk_memory const& chunk) {
      return (chunk.stage > 0 && schedule_.rank_of(chunk.stage - 1) == peer) ||
             (!is_last_stage(chunk.stage) && schedule_.rank_of(chunk.stage + 1) == peer);
    });
  }

  /// The messages that a peer sends to this rank, in the order in which it computes them.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR queue messages_from(int peer) const {
    queue out{.peer = peer};
    for (action const& a : list(peer)) {
      if (a.kind == action_kind::forward && !is_last_stage(a.stage) && holds(a.stage + 1))
        out.order.push_back({step_kind::receive_activation, a.stage + 1, a.microbatch});
      if ((a.kind == action_kind::backward || a.kind == action_kind::backward_input) &&
          a.stage > 0 && holds(a.stage - 1))
        out.order.push_back({step_kind::receive_gradient, a.stage - 1, a.microbatch});
    }
    return out;
  }

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR chunk_state& chunk(int stage) {
    return chunks_[static_cast<std::size_t>(stage / schedule_.ranks)];
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::size_t index_of(int stage, int m) const {
    return static_cast<std::size_t>(stage / schedule_.ranks * schedule_.microbatches + m);
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR task_state& state(int stage, int m) {
    return task_states_[index_of(stage, m)];
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR microbatch_task& task(int stage, int m) {
    return out_.tasks[index_of(stage, m)];
  }

  /// Appends a step and returns its number; elements of `dependencies` may be `none`.
  PARALLELLM_VECTOR_CONSTEXPR int add(step_kind kind, int stage, int m,
                                      std::vector<int> const& dependencies, int peer = -1,
                                      action_kind computes = action_kind::forward) {
    step s{.kind = kind, .computes = computes, .task = {stage, m}, .peer = peer};
    for (int const other : dependencies)
      if (other != none) s.dependencies.push_back(other);
    out_.steps.push_back(std::move(s));
    return static_cast<int>(out_.steps.size()) - 1;
  }

  PARALLELLM_VECTOR_CONSTEXPR std::vector<int> take_boundary(int stage, int m) {
    int const boundary = chunk(stage).boundaries.take();
    task(stage, m).boundary = boundary;
    return chunk(stage).boundary_users[static_cast<std::size_t>(boundary)];
  }

  PARALLELLM_VECTOR_CONSTEXPR void release_boundary(int stage, int m, std::vector<int> users) {
    int const boundary = task(stage, m).boundary;
    chunk(stage).boundary_users[static_cast<std::size_t>(boundary)] = std::move(users);
    chunk(stage).boundaries.release(boundary);
  }

  PARALLELLM_VECTOR_CONSTEXPR void release_slot(int stage, int m) {
    int const slot = task(stage, m).slot;
    chunk(stage).slot_users[static_cast<std::size_t>(slot)] = {state(stage, m).departure};
    chunk(stage).slots.release(slot);
  }

  /// Appends every receive whose memory is available, as early as possible and in sending order.
  PARALLELLM_VECTOR_CONSTEXPR void receive() {
    for (queue& incoming : incoming_)
      for (; incoming.next < incoming.order.size(); ++incoming.next) {
        auto const& [kind, stage, m] = incoming.order[incoming.next];
        auto& current = state(stage, m);
        if (kind == step_kind::receive_activation) {
          if (chunk(stage).boundaries.empty()) break;
          current.arrival = add(kind, stage, m, take_boundary(stage, m), incoming.peer);
        } else {
          if (current.forward == none) break;
          current.gradient_arrival = add(kind, stage, m, {current.forward}, incoming.peer);
        }
      }
  }

  PARALLELLM_VECTOR_CONSTEXPR void forward(int stage, int m) {
    auto& current = state(stage, m);
    if (stage > 0 && holds(stage - 1)) {
      add(step_kind::copy_activation, stage, m, take_boundary(stage, m));
      if (schedule_.forward_only) release_slot(stage - 1, m);
    }
    require(!receives_input(stage) || current.arrival != none, "schedule ", schedule_.name,
            ", rank ", out_.rank, ": the input of microbatch ", m, " at stage ", stage,
            " waits behind a message that there is no memory for yet");
    int const slot = chunk(stage).slots.take();
    task(stage, m).slot = slot;
    auto dependencies = chunk(stage).slot_users[static_cast<std::size_t>(slot)];
    dependencies.push_back(current.arrival);
    current.forward = add(step_kind::compute, stage, m, dependencies);
    if (sends_output(stage))
      current.departure = add(step_kind::send_activation, stage, m, {current.forward},
                              schedule_.rank_of(stage + 1));
    if (!schedule_.forward_only) return;
    if (stage > 0) release_boundary(stage, m, {current.forward});
    if (sends_output(stage) || is_last_stage(stage)) release_slot(stage, m);
  }

  PARALLELLM_VECTOR_CONSTEXPR void backward(action const& a) {
    int const stage = a.stage;
    int const m = a.microbatch;
    auto& current = state(stage, m);
    bool const has_input_gradient = a.kind != action_kind::backward_weight;
    require(!has_input_gradient || !sends_output(stage) || current.gradient_arrival != none,
            "schedule ", schedule_.name, ", rank ", out_.rank, ": the gradient of microbatch ", m,
            " at stage ", stage, " waits behind a message that there is no memory for yet");
    int const computation = add(step_kind::compute, stage, m,
                                {has_input_gradient ? current.gradient_arrival : none}, -1, a.kind);
    if (has_input_gradient && stage > 0) {
      if (holds(stage - 1))
        add(step_kind::copy_gradient, stage, m, {});
      else
        current.gradient_departure =
            add(step_kind::send_gradient, stage, m, {computation}, schedule_.rank_of(stage - 1));
    }
    if (a.kind == action_kind::backward_input) return;
    if (stage > 0) release_boundary(stage, m, {computation, current.gradient_departure});
    release_slot(stage, m);
  }

  PARALLELLM_VECTOR_CONSTEXPR void mark_ends() {
    for (auto const& memory : out_.chunks)
      for (bool const forward : {true, false}) {
        step* last = nullptr;
        for (step& s : out_.steps) {
          if (s.kind != step_kind::compute || s.task.stage != memory.stage ||
              s.computes == action_kind::backward_input ||
              (s.computes == action_kind::forward) != forward)
            continue;
          s.first = last == nullptr;
          last = &s;
        }
        if (last != nullptr) last->last = true;
      }
  }

  schedule const& schedule_;
  std::vector<action> const& own_actions_;
  plan out_;
  std::vector<chunk_state> chunks_;
  std::vector<task_state> task_states_;  // as out_.tasks
  std::vector<queue> incoming_;
};

}  // namespace detail

/// The plan of rank `rank`. The schedule must be sound (simulate.hpp: check). Cost: linear in the
/// actions of the rank and its neighbours. Throws `error` when messages of one link would have to
/// overtake each other.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR plan lower(schedule const& source, int rank) {
  return detail::lowering(source, rank).run();
}

/// The plans of all ranks, by rank.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::vector<plan> lower(schedule const& source) {
  std::vector<plan> out;
  for (int rank = 0; rank < source.ranks; ++rank) out.push_back(lower(source, rank));
  return out;
}

}  // namespace parallel::pipeline
