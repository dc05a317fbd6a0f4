// plan: a schedule lowered to what one rank really does: its computations, the messages between
// them and its neighbours', copies where both neighbours are its own, and the memory of each.
//
// A pure value too. Order and memory are fixed before anything runs, so verify.hpp can prove that
// no rank waits for ever and no buffer is overwritten while it is used, and execute.hpp only has to
// do what stands here.
//
// Memory of a stage. A *slot* holds what a forward pass keeps, the stage's output and the gradient
// of it; a microbatch task takes it with its forward pass and gives it back after its weight
// gradient (forward-only: when the output has left). A *boundary buffer* holds the stage's input
// and the gradient of it; a microbatch task takes it when its input begins to arrive and gives it
// back when the gradient has left. There is one of them more than slots, so that the next input
// arrives, and the last gradient leaves, while the rank computes: it is two activations, a slot all
// that a stage's blocks keep.
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

enum class step_kind : std::uint8_t {
  compute,
  receive_activation,  // into the stage's input
  send_activation,     // its output
  receive_gradient,    // into the gradient of its output
  send_gradient,       // the gradient of its input
  copy_activation,     // from the output of the stage before, on this rank, into its input
  copy_gradient        // the gradient of its input, into that of the output of the stage before
};

[[nodiscard]] constexpr std::string_view name_of(step_kind kind) {
  constexpr std::string_view names[] = {"compute",          "receive_activation", "send_activation",
                                        "receive_gradient", "send_gradient",      "copy_activation",
                                        "copy_gradient"};
  return names[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr bool sends(step_kind kind) {
  return kind == step_kind::send_activation || kind == step_kind::send_gradient;
}
[[nodiscard]] constexpr bool receives(step_kind kind) {
  return kind == step_kind::receive_activation || kind == step_kind::receive_gradient;
}
[[nodiscard]] constexpr bool is_message(step_kind kind) { return sends(kind) || receives(kind); }

/// Of a message to or from a stage, the later of the two between which it goes.
[[nodiscard]] constexpr int boundary_of(step_kind kind, int stage) {
  bool const from_above = kind == step_kind::receive_activation || kind == step_kind::send_gradient;
  return from_above ? stage : stage + 1;
}

/// One microbatch at one stage, and where it lives there.
struct microbatch_task {
  int stage = 0;
  int microbatch = 0;
  int slot = 0;
  int boundary = 0;  // stage 0 has no input and no boundary buffer

  friend constexpr bool operator==(microbatch_task const&, microbatch_task const&) = default;
};

struct step {
  step_kind kind = step_kind::compute;
  action_kind computes = action_kind::forward;  // of compute
  microbatch_task at = {};
  int peer = -1;  // of messages: the rank at the other end
  /// Of compute, among what this rank computes at this stage: the first and last forward pass, or
  /// the first and last that adds to the gradients of the parameters (W or B).
  bool first = false;
  bool last = false;
  /// Earlier steps of this rank that must be over before this one begins, beside those before it on
  /// its own stream. Computations and copies share a stream; messages have one for each peer and
  /// direction.
  std::vector<int> after = {};
  /// Some later step is `after` this one.
  bool awaited = false;

  /// Of a message, the later of the two stages between which it goes.
  [[nodiscard]] constexpr int boundary() const { return boundary_of(kind, at.stage); }
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
  std::vector<chunk_memory> chunks = {};    // in the order of the model
  std::vector<microbatch_task> tasks = {};  // by chunk, then microbatch
  std::vector<step> steps = {};             // in the order in which they are enqueued

  /// Where a microbatch lives at a stage that this rank holds.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR microbatch_task const& at(int stage,
                                                                      int microbatch) const {
    return tasks[static_cast<std::size_t>(stage / ranks * microbatches + microbatch)];
  }
};

namespace detail {

/// Numbers of buffers: those given back longest ago are taken first.
class pool {
 public:
  PARALLELLM_VECTOR_CONSTEXPR explicit pool(int count) {
    for (int i = 0; i < count; ++i) free_.push_back(i);
  }
  [[nodiscard]] constexpr bool empty() const { return next_ == free_.size(); }
  PARALLELLM_VECTOR_CONSTEXPR int take() { return free_[next_++]; }
  PARALLELLM_VECTOR_CONSTEXPR void give_back(int number) { free_.push_back(number); }

 private:
  std::vector<int> free_;
  std::size_t next_ = 0;
};

class lowering {
 public:
  PARALLELLM_VECTOR_CONSTEXPR lowering(schedule const& of, int rank) : of_(of), own_(list(rank)) {
    require(0 <= rank && rank < of.ranks, "a pipeline of ", of.ranks, " ranks has no rank ", rank);
    out_.ranks = of.ranks;
    out_.rank = rank;
    out_.microbatches = of.microbatches;
    for (int chunk = 0; chunk < of.stages_per_rank; ++chunk) {
      out_.chunks.push_back(memory_of(of.stage_of(rank, chunk)));
      chunks_.emplace_back(out_.chunks.back());
      for (int m = 0; m < of.microbatches; ++m)
        out_.tasks.push_back({out_.chunks.back().stage, m, -1, -1});
    }
    done_.resize(out_.tasks.size());
    for (int peer = 0; peer < of.ranks; ++peer)
      if (peer != rank && is_neighbour(peer)) incoming_.push_back(messages_from(peer));
  }

  PARALLELLM_VECTOR_CONSTEXPR plan run() {
    for (action const& a : own_) {
      receive();
      if (a.kind == action_kind::forward)
        forward(a.stage, a.microbatch);
      else
        backward(a);
    }
    for (step& s : out_.steps) {
      s.at = out_.at(s.at.stage, s.at.microbatch);
      for (int const other : s.after) out_.steps[static_cast<std::size_t>(other)].awaited = true;
    }
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

  /// The steps of one microbatch task so far.
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
    return of_.by_rank[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] constexpr bool last(int stage) const { return stage == of_.stages() - 1; }
  /// Whether this rank holds the stage, if there is one.
  [[nodiscard]] constexpr bool holds(int stage) const { return of_.rank_of(stage) == out_.rank; }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool arrives(int stage) const {
    return stage > 0 && !holds(stage - 1);
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool departs(int stage) const {
    return !last(stage) && !holds(stage + 1);
  }

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR chunk_memory memory_of(int stage) const {
    int const ends_at = !of_.forward_only || last(stage) || !holds(stage + 1) ? stage : stage + 1;
    int alive = 0;
    int peak = 0;
    for (action const& a : own_) {
      bool const begins = a.kind == action_kind::forward && a.stage == stage;
      bool const ends =
          a.stage == ends_at && (of_.forward_only || a.kind == action_kind::backward ||
                                 a.kind == action_kind::backward_weight);
      if (begins) peak = std::max(peak, ++alive);
      if (ends) --alive;
    }
    int const slots = peak + (of_.forward_only && departs(stage) ? 1 : 0);
    int const boundaries =
        stage == 0 ? 0 : (of_.forward_only ? 1 : peak) + (arrives(stage) ? 1 : 0);
    return {stage, std::min(slots, of_.microbatches), std::min(boundaries, of_.microbatches)};
  }

  /// Whether a peer holds a stage next to one of this rank's.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool is_neighbour(int peer) const {
    return std::ranges::any_of(out_.chunks, [&](chunk_memory const& own) {
      return (own.stage > 0 && of_.rank_of(own.stage - 1) == peer) ||
             (!last(own.stage) && of_.rank_of(own.stage + 1) == peer);
    });
  }

  /// What a peer sends here, in the order in which it computes it.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR queue messages_from(int peer) const {
    queue out{.peer = peer};
    for (action const& a : list(peer)) {
      if (a.kind == action_kind::forward && !last(a.stage) && holds(a.stage + 1))
        out.order.push_back({step_kind::receive_activation, a.stage + 1, a.microbatch});
      if ((a.kind == action_kind::backward || a.kind == action_kind::backward_input) &&
          a.stage > 0 && holds(a.stage - 1))
        out.order.push_back({step_kind::receive_gradient, a.stage - 1, a.microbatch});
    }
    return out;
  }

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR chunk_state& chunk(int stage) {
    return chunks_[static_cast<std::size_t>(stage / of_.ranks)];
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::size_t index_of(int stage, int m) const {
    return static_cast<std::size_t>(stage / of_.ranks * of_.microbatches + m);
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR task_state& state(int stage, int m) {
    return done_[index_of(stage, m)];
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR microbatch_task& place(int stage, int m) {
    return out_.tasks[index_of(stage, m)];
  }

  /// Appends a step and returns its number; `after` may name `none`.
  PARALLELLM_VECTOR_CONSTEXPR int add(step_kind kind, int stage, int m,
                                      std::vector<int> const& after, int peer = -1,
                                      action_kind computes = action_kind::forward) {
    step s{.kind = kind, .computes = computes, .at = {stage, m}, .peer = peer};
    for (int const other : after)
      if (other != none) s.after.push_back(other);
    out_.steps.push_back(std::move(s));
    return static_cast<int>(out_.steps.size()) - 1;
  }

  PARALLELLM_VECTOR_CONSTEXPR std::vector<int> take_boundary(int stage, int m) {
    int const boundary = chunk(stage).boundaries.take();
    place(stage, m).boundary = boundary;
    return chunk(stage).boundary_users[static_cast<std::size_t>(boundary)];
  }

  PARALLELLM_VECTOR_CONSTEXPR void give_back_boundary(int stage, int m, std::vector<int> users) {
    int const boundary = place(stage, m).boundary;
    chunk(stage).boundary_users[static_cast<std::size_t>(boundary)] = std::move(users);
    chunk(stage).boundaries.give_back(boundary);
  }

  PARALLELLM_VECTOR_CONSTEXPR void give_back_slot(int stage, int m) {
    int const slot = place(stage, m).slot;
    chunk(stage).slot_users[static_cast<std::size_t>(slot)] = {state(stage, m).departure};
    chunk(stage).slots.give_back(slot);
  }

  /// Every receive that has its memory, as early as that and in the order of sending.
  PARALLELLM_VECTOR_CONSTEXPR void receive() {
    for (queue& from : incoming_)
      for (; from.next < from.order.size(); ++from.next) {
        auto const& [kind, stage, m] = from.order[from.next];
        auto& passing = state(stage, m);
        if (kind == step_kind::receive_activation) {
          if (chunk(stage).boundaries.empty()) break;
          passing.arrival = add(kind, stage, m, take_boundary(stage, m), from.peer);
        } else {
          if (passing.forward == none) break;
          passing.gradient_arrival = add(kind, stage, m, {passing.forward}, from.peer);
        }
      }
  }

  PARALLELLM_VECTOR_CONSTEXPR void forward(int stage, int m) {
    auto& passing = state(stage, m);
    if (stage > 0 && holds(stage - 1)) {
      add(step_kind::copy_activation, stage, m, take_boundary(stage, m));
      if (of_.forward_only) give_back_slot(stage - 1, m);
    }
    require(!arrives(stage) || passing.arrival != none, "schedule ", of_.name, ", rank ", out_.rank,
            ": the input of microbatch ", m, " at stage ", stage,
            " waits behind a message that there is no memory for yet");
    int const slot = chunk(stage).slots.take();
    place(stage, m).slot = slot;
    auto after = chunk(stage).slot_users[static_cast<std::size_t>(slot)];
    after.push_back(passing.arrival);
    passing.forward = add(step_kind::compute, stage, m, after);
    if (departs(stage))
      passing.departure =
          add(step_kind::send_activation, stage, m, {passing.forward}, of_.rank_of(stage + 1));
    if (!of_.forward_only) return;
    if (stage > 0) give_back_boundary(stage, m, {passing.forward});
    if (departs(stage) || last(stage)) give_back_slot(stage, m);
  }

  PARALLELLM_VECTOR_CONSTEXPR void backward(action const& a) {
    int const stage = a.stage;
    int const m = a.microbatch;
    auto& passing = state(stage, m);
    bool const input = a.kind != action_kind::backward_weight;
    require(!input || !departs(stage) || passing.gradient_arrival != none, "schedule ", of_.name,
            ", rank ", out_.rank, ": the gradient of microbatch ", m, " at stage ", stage,
            " waits behind a message that there is no memory for yet");
    int const done =
        add(step_kind::compute, stage, m, {input ? passing.gradient_arrival : none}, -1, a.kind);
    if (input && stage > 0) {
      if (holds(stage - 1))
        add(step_kind::copy_gradient, stage, m, {});
      else
        passing.gradient_departure =
            add(step_kind::send_gradient, stage, m, {done}, of_.rank_of(stage - 1));
    }
    if (a.kind == action_kind::backward_input) return;
    if (stage > 0) give_back_boundary(stage, m, {done, passing.gradient_departure});
    give_back_slot(stage, m);
  }

  PARALLELLM_VECTOR_CONSTEXPR void mark_ends() {
    for (auto const& memory : out_.chunks)
      for (bool const forward : {true, false}) {
        step* last = nullptr;
        for (step& s : out_.steps) {
          if (s.kind != step_kind::compute || s.at.stage != memory.stage ||
              s.computes == action_kind::backward_input ||
              (s.computes == action_kind::forward) != forward)
            continue;
          s.first = last == nullptr;
          last = &s;
        }
        if (last != nullptr) last->last = true;
      }
  }

  schedule const& of_;
  std::vector<action> const& own_;
  plan out_;
  std::vector<chunk_state> chunks_;
  std::vector<task_state> done_;  // as out_.tasks
  std::vector<queue> incoming_;
};

}  // namespace detail

/// What rank `rank` does. The schedule must be sound (simulate.hpp: check). Cost: linear in the
/// actions of the rank and its neighbours. Throws `error` when messages of one link would have to
/// overtake each other.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR plan lower(schedule const& of, int rank) {
  return detail::lowering(of, rank).run();
}

/// The plans of all ranks, by rank.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::vector<plan> lower(schedule const& of) {
  std::vector<plan> out;
  for (int rank = 0; rank < of.ranks; ++rank) out.push_back(lower(of, rank));
  return out;
}

}  // namespace parallel::pipeline
