// Checked steps of the exact ring model: a bit that flips in any gradient, or in any copy of a
// parameter, is found and attributed to the right rank; there are no false alarms, and training has
// the bits of steps without checks.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/checks/corruption_check.hpp>
#include <support/devices/flipping_device.hpp>
#include <support/given_gradients.hpp>
#include <support/ring/ring_matrix.hpp>

namespace corruption_check_test {

using namespace test;
using parallel::index;
using parallel::train::fingerprint_fault;
using parallel::train::fingerprint_kind;
using parallel::train::step_limits;
using parallel::train::step_outcome;
namespace axis = parallel::axis;

/// The rank at the same position as `rank`, but with other data.
int with_data_of(parallel::training_layout const& shape, int rank, int data_rank) {
  for (int other = 0; other < shape.ranks(); ++other)
    if (shape.position<axis::replicate, axis::shard>(other) == data_rank &&
        shape.coordinate<axis::tensor>(other) == shape.coordinate<axis::tensor>(rank) &&
        shape.coordinate<axis::context>(other) == shape.coordinate<axis::context>(rank) &&
        shape.coordinate<axis::pipeline>(other) == shape.coordinate<axis::pipeline>(rank))
      return other;
  return -1;
}

/// A rank whose steps are checked.
class checked_rank {
 public:
  using device = flipping::device;
  using rank_type = ring_rank<device, parallel::any_communicator>;
  using session_type = std::remove_reference_t<decltype(std::declval<rank_type&>().session())>;
  using check_type = parallel::train::corruption_check<session_type>;

  checked_rank(parallel::any_communicator world, layout const& run_layout,
               std::shared_ptr<flipping::fault> fault = std::make_shared<flipping::fault>())
      : layout_(run_layout),
        inner_(std::move(world), run_layout, device(std::move(fault))),
        check_(inner_.session()) {}

  auto step(index step_number) {
    auto const own_data =
        data_of(step_number, layout_.shape().position<axis::replicate, axis::shard>(rank()));
    std::optional<step_data<device>> other_data;
    return check_.step({own_data.batches(),
                        own_data.first_sequences(),
                        {.seed = 42, .step = static_cast<std::uint32_t>(step_number)}},
                       [&](int data_rank) {
                         other_data.emplace(data_of(step_number, data_rank));
                         return check_type::work{other_data->batches().front(),
                                                 other_data->first_sequences().front()};
                       });
  }

  [[nodiscard]] int rank() { return inner_.rank(); }
  [[nodiscard]] auto& inner() { return inner_; }
  [[nodiscard]] auto& stepper() { return inner_.stepper(); }
  [[nodiscard]] auto& check() { return check_; }

 private:
  step_data<device> data_of(index step_number, int data_rank) {
    return {inner_.device(), layout_, with_data_of(layout_.shape(), rank(), data_rank), step_number,
            inner_.stepper().least_microbatches(max_microbatches(layout_))};
  }

  layout const& layout_;
  rank_type inner_;
  check_type check_;
};

/// The outcome of a layout when every step is checked.
outcome run_checked(layout const& run_layout) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    checked_rank checked(parallel::any_communicator(std::move(comm)), run_layout);
    for (int step = 0; step < run_layout.num_steps; ++step) {
      auto const step_done = checked.step(step);
      std::scoped_lock const guard(lock);
      CHECK(step_done.faults.empty());
      CHECK(step_done.step.updated());
      out.add(static_cast<std::size_t>(step), step_done.step);
    }
    checked.inner().session().gather_values();
    std::scoped_lock const guard(lock);
    collect(checked.stepper(), out);
  });
  return out;
}

/// Layouts of every axis, level and schedule.
std::vector<layout> some_layouts(std::size_t count) { return spread(all_layouts(6, 1), count); }

TEST_CASE("corruption check: checks change no bit and raise no alarm") {
  for (auto const& run_layout : some_layouts(24)) {
    CAPTURE(text(run_layout));
    CHECK(difference(run_checked(run_layout), run(run_layout)) == "");
  }
}

/// A bit that flips on `rank` after the `which`-th kind of write to a gradient.
struct bit_flip {
  int rank = 0;
  std::size_t operation_number = 0;
  int time = 0;         // number of earlier writes since the checked step began
  bool always = false;  // flips at every later write too
};

/// The results of a step on the rank whose bit flipped.
struct found {
  std::vector<fingerprint_fault> faults = {};
  bool updated = true;
  bool may_repeat = true;
  std::set<std::string> named_units = {};
  int hits = 0;
  std::size_t kinds = 0;       // number of kinds of writes that the rank makes
  std::string parameter = {};  // that was hit, with its unit and the operation that wrote it
  std::string unit = {};
  std::string operation = {};
  /// The parameters of all ranks after the step was repeated.
  std::map<std::string, std::vector<ring>> parameters = {};
};

/// The ranks that the faults name.
std::set<int> ranks_in(std::vector<fingerprint_fault> const& faults, bool persistent) {
  std::set<int> out;
  for (auto const& fault : faults)
    if (fault.persistent == persistent) out.insert(fault.ranks.begin(), fault.ranks.end());
  return out;
}

/// Makes a correct step and then a checked step in which a bit flips.
found run_with(layout const& run_layout, bit_flip const& flip, std::uint64_t bit) {
  found out;
  outcome final_outcome;
  std::mutex lock;
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    auto const fault = std::make_shared<flipping::fault>();
    checked_rank checked(parallel::any_communicator(std::move(comm)), run_layout, fault);
    std::vector<std::pair<parallel::parameter_base<ring> const*, std::string>> parameters;
    for (auto const& unit : checked.stepper().units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s)
        for (std::size_t use = 0; use < unit.memory.layout().uses(); ++use)
          unit.memory.layout().for_each_parameter(s, use, [&](auto const& p, index) {
            parameters.emplace_back(&p, unit.memory.layout().name());
          });
    fault->parameter_at = [&](void const* address) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        auto const& p = *parameters[i].first;
        if (p.gradient_data != nullptr && address >= p.gradient_data &&
            address < p.gradient_data + p.size())
          return static_cast<int>(i);
      }
      return -1;
    };
    std::vector<std::pair<int, std::string>> kinds;
    auto const number = [&](std::pair<int, std::string> const& kind) {
      auto const kind_found = std::ranges::find(kinds, kind) - kinds.begin();
      if (kind_found == std::ssize(kinds)) kinds.push_back(kind);
      return static_cast<std::size_t>(kind_found);
    };
    bool const is_flipping_rank = checked.rank() == flip.rank;
    if (is_flipping_rank)
      fault->strikes = [&](int parameter, std::string const& operation, int) {
        number({parameter, operation});
        return false;
      };
    REQUIRE(checked.step(0).faults.empty());
    fault->write_counts.clear();
    fault->bit = bit;
    if (is_flipping_rank)
      fault->strikes = [&](int parameter, std::string const& operation, int write) {
        bool const is_hit = number({parameter, operation}) == flip.operation_number &&
                            (write == flip.time || (flip.always && write > flip.time));
        if (!is_hit) return false;
        out.parameter = parameters[static_cast<std::size_t>(parameter)].first->name;
        out.unit = parameters[static_cast<std::size_t>(parameter)].second;
        out.operation = operation;
        return true;
      };
    auto const step_done = checked.step(1);
    fault->strikes = {};
    if (!step_done.faults.empty() && step_done.may_repeat()) {
      CHECK(checked.step(1).step.updated());
      checked.inner().session().gather_values();
      std::scoped_lock const guard(lock);
      collect(checked.stepper(), final_outcome);
    }
    if (!is_flipping_rank) return;
    out.faults = step_done.faults;
    out.updated = step_done.step.updated();
    out.may_repeat = step_done.may_repeat();
    for (auto const& fault_here : step_done.faults)
      out.named_units.insert(checked.stepper().plans().name_of_unit(fault_here.subject.unit));
    out.hits = fault->flips;
    out.kinds = kinds.size();
  });
  out.parameters = std::move(final_outcome.parameters);
  return out;
}

/// Whether the check can see the gradient of the first microbatch alone. It cannot for an embedding
/// on a rank that also holds the head, to which later microbatches were added before.
bool is_visible(layout const& run_layout, found const& result) {
  auto const& schedule = run_layout.schedule.schedule;
  bool const meet = run_layout.pipeline == 1 || schedule == "zb-v" || schedule == "dual-pipe-v";
  return !(run_layout.model.tied && meet && result.operation == "embedding_backward");
}

TEST_CASE("corruption check: a bit that flips once in a gradient is found, and the rank is named") {
  std::size_t n = 0, found_count = 0, missed_count = 0;
  for (auto const& run_layout : some_layouts(20)) {
    CAPTURE(text(run_layout));
    int const ranks = run_layout.shape().ranks();
    auto const kinds = run_with(run_layout, {0, std::size_t(-1)}, 0).kinds;
    REQUIRE(kinds > 0);
    for (int time = 0; time < 2; ++time) {  // its buddy's microbatch, then its own microbatch
      ++n;
      bit_flip const flip{static_cast<int>(n) % ranks, n * 7 % kinds, time};
      auto const result = run_with(run_layout, flip, n * 37);
      CAPTURE(flip.rank);
      CAPTURE(result.parameter);
      CAPTURE(result.operation);
      CAPTURE(time);
      if (result.hits == 0) continue;  // the rank makes fewer writes
      if (!is_visible(run_layout, result) && result.faults.empty()) {
        ++missed_count;
        continue;
      }
      ++found_count;
      CHECK(ranks_in(result.faults, false) == std::set{flip.rank});
      CHECK(ranks_in(result.faults, true).empty());
      CHECK(result.may_repeat);
      CHECK_FALSE(result.updated);
      auto two = run_layout;
      two.num_steps = 2;
      CHECK(result.parameters == run(two).parameters);  // as without the flipped bit
      // Alternating buffers also belong to another part.
      if (run_layout.level < zero::level::gradients)
        CHECK(result.named_units == std::set{result.unit});
    }
  }
  CHECK(found_count > 25);
  CHECK(missed_count < 5);
}

TEST_CASE("corruption check: a rank that is always wrong is told from one that was wrong once") {
  std::size_t n = 0;
  std::set<int> tested_data_ranks;
  for (auto const& run_layout : some_layouts(16)) {
    CAPTURE(text(run_layout));
    auto const shape = run_layout.shape();
    int const ranks = shape.ranks();
    int const data = shape.size<axis::replicate, axis::shard>();
    ++n;
    bit_flip const flip{static_cast<int>(n) % ranks, 0, 0, true};
    auto const result = run_with(run_layout, flip, n * 41);
    CAPTURE(flip.rank);
    REQUIRE(result.hits > 0);
    tested_data_ranks.insert(data);
    if (data == 1) {  // the rank agrees with itself
      CHECK(result.faults.empty());
      continue;
    }
    CHECK_FALSE(result.may_repeat);
    CHECK_FALSE(result.updated);
    CHECK(ranks_in(result.faults, false).empty());
    std::set<int> expected{flip.rank};
    if (data == 2) {
      int const own_data = shape.position<axis::replicate, axis::shard>(flip.rank);
      expected.insert(with_data_of(shape, flip.rank, 1 - own_data));
    }
    CHECK(ranks_in(result.faults, true) == expected);
    for (auto const& fault : result.faults) CHECK(fault.certain == (data > 2));
  }
  CHECK(tested_data_ranks.contains(1));
  CHECK(tested_data_ranks.contains(2));
  CHECK(std::ranges::any_of(tested_data_ranks, [](int data) { return data > 2; }));
}

/// An element of a tensor: the tensor's name and the position.
using element_name = std::pair<std::string, index>;

/// Calls f(element, value) for the values of tensors that a rank holds, or for their first state.
void for_each_held(auto& stepper, bool states, auto const& f) {
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& memory = unit.memory.segments()[s];
      if (states && memory.states.empty()) continue;
      auto const held = states ? memory.states[0].span() : memory.values.span();
      bool const owned = states || unit.memory.parameters_sharded();
      index const begin = owned ? memory.owned.begin : 0;
      unit.memory.layout().segments()[s].for_each_piece(
          begin, begin + std::ssize(held),
          [&](auto const& p, index first, index last, index offset_in_unit) {
            p.for_each_run(first, last, [&](index from, index count, index global) {
              for (index i = 0; i < count; ++i)
                f(element_name(p.name, global + i),
                  held[static_cast<std::size_t>(offset_in_unit - begin + from - first + i)]);
            });
          });
    }
}

TEST_CASE(
    "corruption check: a flipped bit in a parameter or state is found if another rank has a copy") {
  std::size_t n = 0;
  std::set<std::size_t> tested_copies;
  for (auto const& run_layout : some_layouts(16))
    for (bool const states : {false, true}) {
      CAPTURE(text(run_layout));
      CAPTURE(states);
      ++n;
      int const flipped_rank = static_cast<int>(n) % run_layout.shape().ranks();
      element_name flipped_element;
      std::set<int> holders;
      std::vector<fingerprint_fault> faults;
      std::mutex lock;
      parallel::threads::run(
          run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
            checked_rank checked(parallel::any_communicator(std::move(comm)), run_layout);
            REQUIRE(checked.step(0).faults.empty());
            checked.inner().session().gather_values();
            if (checked.rank() == flipped_rank) {
              std::size_t count = 0, element_number = 0;
              for_each_held(checked.stepper(), states, [&](auto const&, ring&) { ++count; });
              for_each_held(checked.stepper(), states,
                            [&](element_name const& element, ring& value) {
                              if (element_number++ != n * 7919 % count) return;
                              flipped_element = element;
                              value ^= ring{1} << n * 11 % 64;
                            });
            }
            auto const step_done = checked.step(1);
            std::scoped_lock const guard(lock);
            for_each_held(checked.stepper(), states, [&](element_name const& element, ring&) {
              if (element == flipped_element) holders.insert(checked.rank());
            });
            if (checked.rank() != flipped_rank) return;
            faults = step_done.faults;
            if (faults.empty()) return;
            CHECK_FALSE(step_done.step.updated());
            CHECK_FALSE(step_done.may_repeat());
          });
      CAPTURE(flipped_rank);
      CAPTURE(flipped_element.first);
      tested_copies.insert(holders.size());
      CHECK(ranks_in(faults, false).empty());
      if (holders.size() == 1) {
        CHECK(faults.empty());
        continue;
      }
      CHECK(ranks_in(faults, true) == (holders.size() == 2 ? holders : std::set{flipped_rank}));
      CHECK(faults.size() == 1);
      for (auto const& fault : faults)
        CHECK(fault.subject.kind == (states ? fingerprint_kind::states : fingerprint_kind::values));
    }
  CHECK(tested_copies.contains(1));
  CHECK(tested_copies.contains(2));
  CHECK(tested_copies.size() > 3);
}

TEST_CASE("corruption check: memory that is misread once is not a persistent fault") {
  layout run_layout{.ranks = 2, .level = zero::level::optimizer, .microbatch = 2};
  run_layout.replicas = 2;
  std::set<fingerprint_kind> tested_kinds;
  for (int misread = 0; misread < 40; misread += 3) {
    CAPTURE(misread);
    int misread_count = 0;
    std::vector<fingerprint_fault> faults;
    parallel::threads::run(4, [&](parallel::threads::communicator& comm) {
      auto const fault = std::make_shared<flipping::fault>();
      checked_rank checked(parallel::any_communicator(std::move(comm)), run_layout, fault);
      bool const is_misreading = checked.rank() == 2;
      fault->bit = 5;
      if (is_misreading) fault->misreads = [&] { return misread_count++ == misread; };
      auto const step_done = checked.step(0);
      fault->misreads = {};
      CHECK(step_done.faults.empty() == step_done.step.updated());
      CHECK(step_done.may_repeat());
      if (is_misreading) faults = step_done.faults;
      CHECK(checked.step(0).step.updated());
    });
    REQUIRE(misread_count > misread);
    CHECK(faults.size() == 1);
    for (auto const& fault_found : faults) {
      CHECK(fault_found.ranks == std::vector{2});
      tested_kinds.insert(fault_found.subject.kind);
    }
  }
  CHECK(tested_kinds.size() == 3);
}

TEST_CASE("corruption check: repeated computations add nothing to sums over ranks") {
  using sums = std::map<std::pair<std::string, parallel::operation_kind>, std::uint64_t>;
  for (auto const level : all_levels) {
    layout const run_layout{.ranks = 3, .level = level, .microbatch = 1};
    CAPTURE(static_cast<int>(level));
    auto const sent = [&](bool with_checks) {
      sums out;
      parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
        bool const is_recorded_rank = comm.rank() == 1;
        auto const recorder = std::make_shared<parallel::flight_recorder>();
        parallel::recorded counted(std::move(comm), recorder);
        checked_rank checked(parallel::any_communicator(counted.split(0)), run_layout);
        for (int step = 0; step < 2; ++step) {
          if (with_checks)
            CHECK(checked.step(step).step.updated());
          else
            static_cast<void>(checked.inner().step(step));
        }
        if (!is_recorded_rank) return;
        for (auto const& [traffic, total] : recorder->totals())
          if (!traffic.first.empty() && traffic.second != parallel::operation_kind::all_gather)
            out[traffic] = total.sent;
      });
      return out;
    };
    auto const plain = sent(false);
    CHECK(!plain.empty());
    CHECK(sent(true) == plain);
  }
}

/// The values of rank 0 after three steps of AdamW on three ranks, where rank 2 may have no
/// sequence. Rank 1 adds `wrong` to a gradient in the last step.
std::vector<float> weights_of(bool checked, zero::level level, zero::reduction_order order,
                              float last_factor, float wrong_addend, bool limited = false) {
  std::vector<float> out;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    given_gradients<float> model(
        {{"a", {4, 3}, std::vector<float>(12, 2.0F), std::vector<float>(12, 0.5F)},
         {"b", {5}, std::vector<float>(5, -1.0F), std::vector<float>(5, 0.25F)}});
    parallel::train::session session(model, device, comm, parallel::decoupled_adamw{},
                                     {.level = level, .keep_finite = true, .order = order});
    model.set_weights(session.stepper());
    parallel::train::corruption_check check(session);
    for (int number = 0; number < 3; ++number) {
      auto const batch_of = [&](int data_rank) {
        return given_microbatch<float>{data_rank == 2 ? last_factor : float(data_rank + 2), 1};
      };
      bool const is_wrong_step = wrong_addend != 0 && number == 2;
      bool const is_above_limit = limited && number == 1;
      session.stepper().limit(is_above_limit ? step_limits{.loss = 0.1} : step_limits{});
      float const third = 3 + (is_wrong_step && comm.rank() == 1 ? wrong_addend : 0);
      model.set_gradient(1, {float(number), 0.1F, third, -0.3F, 4.0F});
      std::vector<given_microbatch<float>> const batches{batch_of(comm.rank()),
                                                         batch_of(comm.rank())};
      std::vector<index> const first{2 * comm.rank(), 2 * comm.rank() + 1};
      parallel::position const current{.step = static_cast<std::uint32_t>(number)};
      if (!checked) {
        static_cast<void>(session.step({batches, first, current}));
        continue;
      }
      auto const step_done = check.step({batches, first, current}, [&](int data_rank) {
        return decltype(check)::work{batch_of(data_rank), 2 * data_rank};
      });
      CHECK(step_done.step.outcome == (is_wrong_step    ? step_outcome::corrupted
                                       : is_above_limit ? step_outcome::above_limit
                                                        : step_outcome::updated));
      CHECK(ranks_in(step_done.faults, true) == (is_wrong_step ? std::set{1} : std::set<int>{}));
      CHECK(ranks_in(step_done.faults, false).empty());
    }
    session.gather_values();
    if (comm.rank() == 0)
      model.for_each_held(session.stepper(), [&](std::size_t, index, std::span<float> values) {
        out.insert(out.end(), values.begin(), values.end());
      });
  });
  return out;
}

TEST_CASE(
    "corruption check: floats by rank and by tree, and ranks without a sequence, are checked") {
  for (auto const level : all_levels)
    for (auto const order : {zero::reduction_order::by_rank, zero::reduction_order::canonical_tree})
      for (float const last : {0.0F, 5.0F}) {
        CAPTURE(static_cast<int>(level));
        CAPTURE(static_cast<int>(order));
        auto const plain = weights_of(false, level, order, last, 0);
        CHECK(weights_of(true, level, order, last, 0) == plain);
        auto const unmeasured = weights_of(false, level, order, last, 0, true);
        CHECK(unmeasured != plain);
        CHECK(weights_of(true, level, order, last, 0, true) == unmeasured);
        CHECK(weights_of(true, level, order, last, 1) != plain);
      }
}

}  // namespace corruption_check_test
