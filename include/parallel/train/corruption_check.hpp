// corruption_check: finds a rank that computes, or holds, other bits than it should.
//
// A step is checked in two ways. Ranks that hold copies of the same parameters or states (replicas,
// neighbours along the tensor axis, both ends of a tied weight) compare fingerprints of them. And
// the first microbatch of every data rank is computed a second time, before the step, by its buddy,
// the data rank before it in the ring of those that hold the same part of the model; the step
// itself fingerprints the gradients of its own first microbatch, before anything is reduced, and
// nothing is updated unless they have the bits that the buddy found.
//
// This is exact, since every random number is a function of what it is for, and as far as ranks
// compute the same bits from the same data: the same instructions, threads and libraries on all of
// them, and operations that are deterministic. Ranks of one model part exchange activations, so a
// wrong forward pass shows on several of them. The only data rank computes again itself, which
// finds faults that do not repeat.
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
#include <parallel/train/fault_text.hpp>
#include <parallel/train/fingerprint.hpp>
#include <parallel/train/fingerprinter.hpp>
#include <parallel/train/shared_results.hpp>
#include <parallel/train/step_passes.hpp>
#include <parallel/train/step_plan.hpp>

namespace parallel::train {

/// What a checked step did. With faults nothing was updated.
template <class Result>
struct checked_result {
  Result step = {};
  std::vector<fingerprint_fault> faults = {};  // the same on every rank

  /// Whether no fault was found twice: the step may be made again.
  [[nodiscard]] bool may_go_on() const {
    return std::ranges::none_of(faults, &fingerprint_fault::persistent);
  }
};

/// Of a stepper's steps. The stepper asks it after every pass, and before it updates.
template <class Stepper>
class corruption_check {
 public:
  using model_type = typename Stepper::model_type;
  using element = typename Stepper::element;
  using microbatch = typename Stepper::microbatch;
  using stream = typename Stepper::stream;
  using exchange_stream = typename Stepper::exchange_stream;
  using device_type = typename Stepper::device_type;
  using result_type = checked_result<step_result<typename Stepper::loss>>;

  /// A data rank's first microbatch of a step, and its place in the global batch.
  struct work {
    microbatch batch;
    index first_sequence = 0;
  };

  /// `of` must outlive it and stay where it is.
  explicit corruption_check(Stepper& of)
      : of_(of), prints_(of.device(), most_tensors(of)), rank_(of.groups_.data_rank()) {}
  corruption_check(corruption_check const&) = delete;
  corruption_check& operator=(corruption_check const&) = delete;

  /// stepper::step with all checks. work_of(data rank) gives what that rank has in this step, for
  /// this rank's place along the other axes, valid until the next call; it is called on all ranks
  /// alike. `memory` must do for it too. Collective; blocks. Cost: one microbatch more, a pass over
  /// all that a rank holds, and two exchanges of 32 bytes for each unit and what it has of it from
  /// each rank; in case of a fault three microbatches more, to tell who is wrong and whether again.
  template <class WorkOf>
  [[nodiscard]] result_type step(stream& compute, exchange_stream& exchanges, arena& memory,
                                 std::span<microbatch const> batches,
                                 std::span<index const> first_sequences, position where,
                                 double learning_rate_factor, WorkOf const& work_of) {
    result_type out;
    out.faults = compare_copies(compute, exchanges);
    if (!out.faults.empty()) {
      out.step.outcome = step_outcome::corrupted;
      return out;
    }
    int const ranks = of_.groups_.data_ranks();
    auto const again = [&](int data_rank, bool tell) {
      auto given = recompute(compute, exchanges, memory, work_of(data_rank), where, data_rank);
      if (tell) gather(exchanges, given);
      return given;
    };
    told_ = again((rank_ + 1) % ranks, false);
    {
      observing const here(*this, rank_);
      out.step = of_.step(compute, exchanges, memory, batches, first_sequences, where,
                          learning_rate_factor);
    }
    if (agreed_) {
      said_.clear();
      return out;
    }
    for (int next = 0; next < std::min(ranks, 3); ++next) again((rank_ + next) % ranks, true);
    out.faults = judge(std::exchange(said_, {}));
    return out;
  }

  /// Compares copies alone. Collective; blocks.
  [[nodiscard]] std::vector<fingerprint_fault> compare_copies(stream& compute,
                                                              exchange_stream& exchanges) {
    of_.gather_values(compute);
    return of_.attempt(compute, &exchanges, [&] {
      for (int round = 0; round < 2; ++round) {  // a second look, where the first finds something
        add_copies(compute);
        compute.synchronize();
        gather(exchanges, prints_.take());
        if (judge(said_).empty()) break;
      }
      return judge(std::exchange(said_, {}));
    });
  }

  /// What the faults of a step say, with ranks, machines and units. Collective; blocks.
  [[nodiscard]] std::string describe(exchange_stream& exchanges,
                                     std::span<fingerprint_fault const> faults) {
    using name = std::array<char, 64>;
    auto const machines = from_all<name>(exchanges, [](std::span<name> mine) {
      static_cast<void>(machine_name().copy(mine[0].data(), mine[0].size() - 1));
    });
    auto& world = of_.groups_.world();
    return text_of(
        faults, [&](int unit) { return of_.plans().name_of_unit(unit); },
        [&](int rank) {
          int at = 0;
          while (at + 1 < world.size() && world.world_rank(at) != rank) ++at;
          return std::string(machines.data()[at].data());
        });
  }

  /// Whether the passes of a step are all that is done of it.
  [[nodiscard]] bool passes_alone() const { return passes_alone_; }

  /// Asked when a pass was enqueued on `on`.
  template <class On>
  void after(action const& pass, On& on) {
    if (!adds_gradients(pass.does)) return;
    auto const& set = of_.placed_.set();
    for (std::size_t number = 0; number < of_.units().size(); ++number) {
      auto const& unit = of_.units()[number];
      for (std::size_t use = 0; use < unit.parts.size(); ++use) {
        if (unit.parts[use] != pass.of) continue;
        if (pass.at.microbatch != 0) {
          mixed_.insert(number);
        } else if (set.gradients_sharded() || set.by_tree() || !mixed_.contains(number)) {
          add_gradients_of(number, use, on);
        }
      }
    }
  }

  /// Whether every first microbatch has the gradients that its buddy found. Collective; blocks.
  [[nodiscard]] bool agree(stream& compute, exchange_stream& exchanges) {
    compute.synchronize();
    auto given = prints_.take();
    given.insert(given.end(), told_.begin(), told_.end());
    gather(exchanges, given);
    return agreed_ = judge(said_).empty();
  }

 private:
  /// While it lives, the stepper's passes are of a data rank's microbatches and looked at.
  struct observing {
    observing(corruption_check& own, int data_rank, bool passes_alone = false) : of(own.of_) {
      own.of_rank_ = data_rank;
      own.passes_alone_ = passes_alone;
      own.agreed_ = true;
      own.mixed_.clear();
      of.checked_by_ = &own;
    }
    ~observing() { of.checked_by_ = nullptr; }
    observing(observing const&) = delete;
    observing& operator=(observing const&) = delete;
    Stepper& of;
  };

  [[nodiscard]] static std::size_t most_tensors(Stepper& of) {
    std::size_t gradients = 0, copies = 0;
    for (auto const& unit : of.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& layout = unit.memory.layout();
        gradients += layout.uses() * layout.segments()[s].parameters.size();
        copies += 2 + unit.memory.segments()[s].states.size();
      }
    return std::max(gradients, copies);
  }

  [[nodiscard]] fingerprint_subject subject(fingerprint_kind kind, std::size_t unit) const {
    return {.kind = kind, .unit = of_.plans().units()[unit].number};
  }

  template <class On>
  void add_gradients_of(std::size_t number, std::size_t use, On& on) {
    auto const& unit = of_.units()[number];
    auto of = subject(fingerprint_kind::gradient, number);
    of.piece = static_cast<std::int32_t>(unit.parts[use]);
    of.place = of_rank_;
    of.tensor = of_.groups_.tensor.rank();
    of.context = of_.groups_.context.rank();
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s)
      if (unit.memory.is_trainable(s))
        unit.memory.layout().for_each_parameter(s, use, [&](auto const& parameter, index) {
          prints_.add(on, of,
                      std::span(std::as_const(parameter).gradient_data,
                                static_cast<std::size_t>(parameter.size())));
        });
  }

  /// What ranks with the same shard, or with all of it, hold alike.
  void add_copies(stream& on) {
    for (std::size_t number = 0; number < of_.units().size(); ++number) {
      auto const& unit = of_.units()[number].memory;
      auto const shard = static_cast<std::int32_t>(unit.place().shard);
      for (std::size_t s = 0; s < unit.segments().size(); ++s) {
        auto const& memory = unit.segments()[s];
        auto of = subject(fingerprint_kind::values, number);
        of.piece = static_cast<std::int32_t>(s);
        of.place = unit.parameters_sharded() ? shard : -1;
        of.tensor = static_cast<std::int32_t>(unit.place().tensor) /
                    unit.layout().segments()[s].key.replication.ranks;
        prints_.add(on, of, memory.values.span());
        of.kind = fingerprint_kind::states;
        of.place = shard;
        if constexpr (!std::is_same_v<element, accumulate_t<element>>)
          prints_.add(on, of, memory.master.span());
        for (auto const& state : memory.states) prints_.add(on, of, state.span());
      }
    }
  }

  /// The fingerprints of the gradients of a data rank's first microbatch. Collective; blocks.
  [[nodiscard]] std::vector<fingerprint> recompute(stream& compute, exchange_stream& exchanges,
                                                   arena& memory, work const& what, position where,
                                                   int data_rank) {
    std::vector<microbatch> batches(of_.least_microbatches(1));
    std::vector<index> first(batches.size());
    batches.front() = what.batch;
    first.front() = what.first_sequence;
    observing const here(*this, data_rank, true);
    return of_.attempt(compute, &exchanges, [&] {
      step_batches<model_type> const of{batches, first, where, pass::training};
      of_.begin(exchanges, of, 0);
      auto const requests = of_.run(compute, &exchanges, memory, of, {where.step});
      compute.synchronize();
      return prints_.take();
    });
  }

  /// `each` things that fill(span) makes on every rank, by rank. Collective; blocks.
  template <class T, class Fill>
  [[nodiscard]] buffer<T> from_all(exchange_stream& exchanges, Fill const& fill,
                                   std::size_t each = 1) {
    auto& world = of_.groups_.world();
    std::size_t const all = each * static_cast<std::size_t>(world.size());
    auto memory = of_.device().template allocate_shared<T>(all + each);
    fill(memory.span().last(each));
    auto const bytes = [&](std::size_t first, std::size_t count) {
      return std::span(reinterpret_cast<std::uint8_t*>(memory.data() + first), count * sizeof(T));
    };
    world.all_gather(exchanges, bytes(0, all), std::span<std::uint8_t const>(bytes(all, each)))
        .wait();
    return memory;
  }

  /// Adds to said_ what every rank has to say. Collective; blocks.
  void gather(exchange_stream& exchanges, std::vector<fingerprint> const& own) {
    auto const counts = from_all<std::size_t>(
        exchanges, [&](std::span<std::size_t> mine) { mine[0] = own.size(); });
    auto& world = of_.groups_.world();
    std::size_t most = 0;
    for (int rank = 0; rank < world.size(); ++rank) most = std::max(most, counts.data()[rank]);
    auto const told = from_all<fingerprint>(
        exchanges, [&](auto mine) { std::ranges::copy(own, mine.begin()); }, most);
    for (int rank = 0; rank < world.size(); ++rank)
      for (std::size_t i = 0; i < counts.data()[rank]; ++i)
        said_.push_back(
            {told.data()[static_cast<std::size_t>(rank) * most + i], world.world_rank(rank)});
  }

  Stepper& of_;
  fingerprinter<device_type> prints_;
  int rank_;         // this data rank
  int of_rank_ = 0;  // whose microbatches the passes are of
  bool passes_alone_ = false;
  bool agreed_ = true;                       // in the step made last
  std::set<std::size_t> mixed_;              // units with gradients of other microbatches
  std::vector<fingerprint> told_;            // of the next data rank's microbatch, by this one
  std::vector<fingerprint_statement> said_;  // by all ranks
};

}  // namespace parallel::train
