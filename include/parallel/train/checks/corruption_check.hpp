// corruption_check: finds a rank that computes, or holds, bits other than the right ones.
//
// A step is checked in two ways. Ranks that hold copies of the same parameters or states (replicas,
// neighbours along the tensor axis, both ends of a tied weight) compare fingerprints of them. And
// the first microbatch of every data rank is computed a second time, before the step, by its buddy,
// which is the previous data rank in the ring of those that hold the same part of the model. The
// step itself fingerprints the gradients of its own first microbatch, before anything is reduced,
// and updates nothing unless they have the bits that the buddy found.
//
// The check is exact, since every random number is a function of its purpose, as far as ranks
// compute the same bits from the same data: with the same instructions, threads and libraries, and
// deterministic operations. Ranks of one model part exchange activations, so a wrong forward pass
// shows on several of them. A data rank that is alone recomputes its microbatch itself, which finds
// faults that do not repeat.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/machine_name.hpp>
#include <parallel/train/checks/fault_text.hpp>
#include <parallel/train/checks/fingerprint.hpp>
#include <parallel/train/results/shared_results.hpp>
#include <parallel/train/session.hpp>
#include <parallel/train/step/step_plan.hpp>
#include <parallel/train/step/step_state.hpp>

namespace parallel::train {

/// The result of a checked step. With faults nothing was updated.
template <class Result>
struct checked_result {
  Result step = {};
  std::vector<fingerprint_fault> faults = {};  ///< the same on every rank

  /// Whether no fault was found twice, so that the step may be repeated.
  [[nodiscard]] bool may_repeat() const {
    return std::ranges::none_of(faults, &fingerprint_fault::persistent);
  }
};

/// Checks the steps of a session, whose stepper calls it after every pass, and before it updates.
template <class Session>
class corruption_check final
    : public step_observer<typename Session::stream, typename Session::exchange_stream> {
 public:
  using microbatch = typename Session::microbatch;
  using request_type = typename Session::request_type;
  using stream = typename Session::stream;
  using exchange_stream = typename Session::exchange_stream;
  using device_type = typename Session::device_type;
  using result_type = checked_result<step_result<typename Session::loss>>;

  /// A data rank's first microbatch of a step, and its position in the global batch.
  struct work {
    microbatch batch;
    index first_sequence = 0;
  };

  /// `session` must outlive the check.
  explicit corruption_check(Session& session)
      : session_(session),
        state_(session.stepper().state()),
        fingerprints_(session.device(), max_tensors()),
        rank_(state_.groups.data_rank()) {}
  corruption_check(corruption_check&&) = delete;

  /// Session::step with all checks. work_of(data rank) gives the microbatch of that rank in this
  /// step, for this rank's position along the other axes, valid until the next call; it is called
  /// on all ranks alike. Collective; blocks.
  /// Cost: one microbatch more, a pass over all memory of the rank's units, and two exchanges of 32
  /// bytes for each unit and each kind of memory of it from each rank; after a fault three
  /// microbatches more, which tell who is wrong and whether it happens again.
  template <class WorkOf>
  [[nodiscard]] result_type step(request_type const& request, WorkOf const& work_of) {
    result_type result;
    result.faults = compare_copies();
    if (!result.faults.empty()) {
      result.step.outcome = step_outcome::corrupted;
      return result;
    }
    int const ranks = state_.groups.data_ranks();
    auto const recompute_rank = [&](int data_rank, bool is_shared) {
      auto prints = recompute(work_of(data_rank), request.position, data_rank);
      if (is_shared) gather(prints);
      return prints;
    };
    neighbour_prints_ = recompute_rank((rank_ + 1) % ranks, false);
    {
      observing const scope(*this, rank_);
      result.step = session_.step(request);
    }
    if (agreed_) {
      statements_.clear();
      return result;
    }
    for (int offset = 0; offset < std::min(ranks, 3); ++offset)
      recompute_rank((rank_ + offset) % ranks, true);
    result.faults = judge(std::exchange(statements_, {}));
    return result;
  }

  /// Compares the copies alone. Collective; blocks.
  [[nodiscard]] std::vector<fingerprint_fault> compare_copies() {
    session_.gather_values();
    return session_.attempt([&](stream& compute) {
      for (int round = 0; round < 2; ++round) {  // a second round if the first finds a fault
        add_copies(compute);
        compute.synchronize();
        gather(fingerprints_.take());
        if (judge(statements_).empty()) break;
      }
      return judge(std::exchange(statements_, {}));
    });
  }

  /// Describes the faults of a step, with ranks, machines and units. Collective; blocks.
  [[nodiscard]] std::string describe(std::span<fingerprint_fault const> faults) {
    using name = std::array<char, 64>;
    auto const machines = gather_from_ranks<name>([](std::span<name> names) {
      static_cast<void>(machine_name().copy(names[0].data(), names[0].size() - 1));
    });
    auto& world = state_.groups.world();
    return to_string(
        faults, [&](int unit) { return state_.placed.plans().name_of_unit(unit); },
        [&](int rank) {
          int member = 0;
          while (member + 1 < world.size() && world.world_rank(member) != rank) ++member;
          return std::string(machines.data()[member].data());
        });
  }

  void observe_pass(action const& pass, stream& compute) override {
    if (!adds_gradients(pass.pass)) return;
    auto const& set = state_.placed.set();
    for (std::size_t number = 0; number < state_.placed.units().size(); ++number) {
      auto const& unit = state_.placed.units()[number];
      for (std::size_t use = 0; use < unit.parts.size(); ++use) {
        if (unit.parts[use] != pass.model_part) continue;
        if (pass.task.microbatch != 0) {
          later_units_.insert(number);
        } else if (set.gradients_sharded() || set.uses_tree() || !later_units_.contains(number)) {
          add_gradients_of(number, use, compute);
        }
      }
    }
  }

  /// Whether every first microbatch has the gradients that its buddy found.
  [[nodiscard]] bool agree(stream& compute, exchange_stream&) override {
    compute.synchronize();
    auto prints = fingerprints_.take();
    prints.insert(prints.end(), neighbour_prints_.begin(), neighbour_prints_.end());
    gather(prints);
    return agreed_ = judge(statements_).empty();
  }

 private:
  using state_type = typename Session::stepper_type::state_type;

  /// While it lives, the check observes the passes over a data rank's microbatches.
  struct observing {
    observing(corruption_check& check, int data_rank) : state(check.state_) {
      check.observed_rank_ = data_rank;
      check.agreed_ = true;
      check.later_units_.clear();
      state.check = &check;
    }
    ~observing() { state.check = nullptr; }
    observing(observing&&) = delete;
    state_type& state;
  };

  [[nodiscard]] std::size_t max_tensors() const {
    std::size_t gradients = 0, copies = 0;
    for (auto const& unit : state_.placed.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& layout = unit.memory.layout();
        gradients += layout.uses() * layout.segments()[s].parameters.size();
        copies += 2 + unit.memory.segments()[s].states.size();
      }
    return std::max(gradients, copies);
  }

  [[nodiscard]] fingerprint_subject subject(fingerprint_kind kind, std::size_t unit) const {
    return {.kind = kind, .unit = state_.placed.plans().units()[unit].number};
  }

  template <class Stream>
  void add_gradients_of(std::size_t number, std::size_t use, Stream& compute_stream) {
    auto const& unit = state_.placed.units()[number];
    auto print_subject = subject(fingerprint_kind::gradient, number);
    print_subject.piece = static_cast<std::int32_t>(unit.parts[use]);
    print_subject.owner = observed_rank_;
    print_subject.tensor = state_.groups.tensor.rank();
    print_subject.context = state_.groups.context.rank();
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s)
      if (unit.memory.is_trainable(s))
        unit.memory.layout().for_each_parameter(s, use, [&](auto const& parameter, index) {
          fingerprints_.add(compute_stream, print_subject,
                            std::span(std::as_const(parameter).gradient_data,
                                      static_cast<std::size_t>(parameter.size())));
        });
  }

  /// Fingerprints the memory that ranks with the same shard, or with all of a unit, have in common.
  void add_copies(stream& compute) {
    for (std::size_t number = 0; number < state_.placed.units().size(); ++number) {
      auto const& unit = state_.placed.units()[number].memory;
      auto const shard = static_cast<std::int32_t>(unit.position().shard);
      for (std::size_t s = 0; s < unit.segments().size(); ++s) {
        auto const& memory = unit.segments()[s];
        auto print_subject = subject(fingerprint_kind::values, number);
        print_subject.piece = static_cast<std::int32_t>(s);
        print_subject.owner = unit.parameters_sharded() ? shard : -1;
        print_subject.tensor = static_cast<std::int32_t>(unit.position().tensor) /
                               unit.layout().segments()[s].key.replication.ranks;
        fingerprints_.add(compute, print_subject, memory.values.span());
        print_subject.kind = fingerprint_kind::states;
        print_subject.owner = shard;
        if constexpr (!std::is_same_v<typename state_type::element,
                                      typename state_type::gradient_type>)
          fingerprints_.add(compute, print_subject, memory.master.span());
        for (auto const& state : memory.states)
          fingerprints_.add(compute, print_subject, state.span());
      }
    }
  }

  /// The fingerprints of the gradients of a data rank's first microbatch. Collective; blocks.
  [[nodiscard]] std::vector<fingerprint> recompute(work const& first_work, position current,
                                                   int data_rank) {
    std::vector<microbatch> batches(session_.least_microbatches(1));
    std::vector<index> first(batches.size());
    batches.front() = first_work.batch;
    first.front() = first_work.first_sequence;
    observing const scope(*this, data_rank);
    return session_.run_passes({batches, first, current, 0},
                               [this] { return fingerprints_.take(); });
  }

  /// Gathers `count` elements, which fill(span) makes on every rank, by rank. Collective; blocks.
  template <class T, class Fill>
  [[nodiscard]] buffer<T> gather_from_ranks(Fill const& fill, std::size_t count = 1) {
    auto& world = state_.groups.world();
    std::size_t const total = count * static_cast<std::size_t>(world.size());
    auto memory = state_.device.template allocate_shared<T>(total + count);
    fill(memory.span().last(count));
    auto const bytes = [&](std::size_t first, std::size_t length) {
      return std::span(reinterpret_cast<std::uint8_t*>(memory.data() + first), length * sizeof(T));
    };
    world
        .all_gather(session_.exchanges(), bytes(0, total),
                    std::span<std::uint8_t const>(bytes(total, count)))
        .wait();
    return memory;
  }

  /// Adds the fingerprints of all ranks to statements_. Collective; blocks.
  void gather(std::vector<fingerprint> const& own_prints) {
    auto const counts = gather_from_ranks<std::size_t>(
        [&](std::span<std::size_t> own_count) { own_count[0] = own_prints.size(); });
    auto& world = state_.groups.world();
    std::size_t max_count = 0;
    for (int rank = 0; rank < world.size(); ++rank)
      max_count = std::max(max_count, counts.data()[rank]);
    auto const prints = gather_from_ranks<fingerprint>(
        [&](auto destination) { std::ranges::copy(own_prints, destination.begin()); }, max_count);
    for (int rank = 0; rank < world.size(); ++rank)
      for (std::size_t i = 0; i < counts.data()[rank]; ++i)
        statements_.push_back({prints.data()[static_cast<std::size_t>(rank) * max_count + i],
                               world.world_rank(rank)});
  }

  Session& session_;
  state_type& state_;
  fingerprinter<device_type> fingerprints_;
  int rank_;                           // the data rank of this process
  int observed_rank_ = 0;              // the data rank whose microbatches the passes are of
  bool agreed_ = true;                 // in the last step
  std::set<std::size_t> later_units_;  // units with gradients of later microbatches
  std::vector<fingerprint>
      neighbour_prints_;  // of the next data rank's microbatch, computed by this rank
  std::vector<fingerprint_statement> statements_;  // statements of all ranks
};

}  // namespace parallel::train
