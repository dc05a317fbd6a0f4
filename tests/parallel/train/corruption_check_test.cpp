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
#include <parallel/train/corruption_check.hpp>
#include <support/flipping_device.hpp>
#include <support/given_gradients.hpp>
#include <support/ring_matrix.hpp>

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
  using stepper_type = std::remove_reference_t<decltype(std::declval<rank_type&>().stepper())>;
  using check_type = parallel::train::corruption_check<stepper_type>;

  checked_rank(parallel::any_communicator world, layout const& run_layout,
               std::shared_ptr<flipping::fault> fault = std::make_shared<flipping::fault>())
      : how_(run_layout),
        one_(std::move(world), run_layout, device(std::move(fault))),
        check_(one_.stepper()) {
    auto const largest_data = data_of(0, 0);  // no rank has more data
    memory_ = parallel::arena(
        one_.device().allocate<std::byte>(one_.stepper().plan_activations(largest_data.batches())));
  }

  auto step(index step_number) {
    auto const own_data =
        data_of(step_number, how_.shape().position<axis::replicate, axis::shard>(rank()));
    std::optional<step_data<device>> other_data;
    return check_.step(
        one_.compute(), one_.exchanges(), memory_, own_data.batches(), own_data.first_sequences(),
        {.seed = 42, .step = static_cast<std::uint32_t>(step_number)}, 1.0, [&](int data_rank) {
          other_data.emplace(data_of(step_number, data_rank));
          return check_type::work{other_data->batches().front(),
                                  other_data->first_sequences().front()};
        });
  }

  [[nodiscard]] int rank() { return one_.rank(); }
  [[nodiscard]] auto& one() { return one_; }
  [[nodiscard]] auto& stepper() { return one_.stepper(); }
  [[nodiscard]] auto& check() { return check_; }

 private:
  step_data<device> data_of(index step_number, int data_rank) {
    return {one_.device(), how_, with_data_of(how_.shape(), rank(), data_rank), step_number,
            one_.stepper().least_microbatches(max_microbatches(how_))};
  }

  layout const& how_;
  rank_type one_;
  check_type check_;
  parallel::arena memory_;
};

/// The outcome of a layout when every step is checked.
outcome run_checked(layout const& run_layout) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    checked_rank one(parallel::any_communicator(std::move(comm)), run_layout);
    for (int step = 0; step < run_layout.num_steps; ++step) {
      auto const step_done = one.step(step);
      std::scoped_lock const guard(lock);
      CHECK(step_done.faults.empty());
      CHECK(step_done.step.updated());
      out.add(static_cast<std::size_t>(step), step_done.step);
    }
    one.stepper().gather_values(one.one().compute());
    std::scoped_lock const guard(lock);
    collect(one.stepper(), out);
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
struct strike {
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
  std::set<std::string> named = {};  // units
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
found run_with(layout const& run_layout, strike const& hit, std::uint64_t bit) {
  found out;
  outcome final_outcome;
  std::mutex lock;
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    auto const fault = std::make_shared<flipping::fault>();
    checked_rank one(parallel::any_communicator(std::move(comm)), run_layout, fault);
    std::vector<std::pair<parallel::parameter_base<ring> const*, std::string>> parameters;
    for (auto const& unit : one.stepper().units())
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
    bool const is_struck = one.rank() == hit.rank;
    if (is_struck)
      fault->strikes = [&](int parameter, std::string const& operation, int) {
        number({parameter, operation});
        return false;
      };
    REQUIRE(one.step(0).faults.empty());
    fault->times.clear();
    fault->bit = bit;
    if (is_struck)
      fault->strikes = [&](int parameter, std::string const& operation, int time) {
        bool const is_hit = number({parameter, operation}) == hit.operation_number &&
                            (time == hit.time || (hit.always && time > hit.time));
        if (!is_hit) return false;
        out.parameter = parameters[static_cast<std::size_t>(parameter)].first->name;
        out.unit = parameters[static_cast<std::size_t>(parameter)].second;
        out.operation = operation;
        return true;
      };
    auto const step_done = one.step(1);
    fault->strikes = {};
    if (!step_done.faults.empty() && step_done.may_repeat()) {
      CHECK(one.step(1).step.updated());
      one.stepper().gather_values(one.one().compute());
      std::scoped_lock const guard(lock);
      collect(one.stepper(), final_outcome);
    }
    if (!is_struck) return;
    out.faults = step_done.faults;
    out.updated = step_done.step.updated();
    out.may_repeat = step_done.may_repeat();
    for (auto const& fault_here : step_done.faults)
      out.named.insert(one.stepper().plans().name_of_unit(fault_here.subject.unit));
    out.hits = fault->hits;
    out.kinds = kinds.size();
  });
  out.parameters = std::move(final_outcome.parameters);
  return out;
}

/// Whether the check can see the gradient of the first microbatch alone. It cannot for an embedding
/// on a rank that also holds the head, to which later microbatches were added before.
bool is_told(layout const& run_layout, found const& result) {
  auto const& schedule = run_layout.schedule.schedule;
  bool const meet = run_layout.pipeline == 1 || schedule == "zb-v" || schedule == "dual-pipe-v";
  return !(run_layout.model.tied && meet && result.operation == "embedding_backward");
}

TEST_CASE("corruption check: a bit that flips once in a gradient is found, and the rank is named") {
  std::size_t n = 0, struck = 0, untold = 0;
  for (auto const& run_layout : some_layouts(20)) {
    CAPTURE(text(run_layout));
    int const ranks = run_layout.shape().ranks();
    auto const kinds = run_with(run_layout, {0, std::size_t(-1)}, 0).kinds;
    REQUIRE(kinds > 0);
    for (int time = 0; time < 2; ++time) {  // its buddy's microbatch, then its own microbatch
      ++n;
      strike const hit{static_cast<int>(n) % ranks, n * 7 % kinds, time};
      auto const got = run_with(run_layout, hit, n * 37);
      CAPTURE(hit.rank);
      CAPTURE(got.parameter);
      CAPTURE(got.operation);
      CAPTURE(time);
      if (got.hits == 0) continue;  // the rank makes fewer writes
      if (!is_told(run_layout, got) && got.faults.empty()) {
        ++untold;
        continue;
      }
      ++struck;
      CHECK(ranks_in(got.faults, false) == std::set{hit.rank});
      CHECK(ranks_in(got.faults, true).empty());
      CHECK(got.may_repeat);
      CHECK_FALSE(got.updated);
      auto two = run_layout;
      two.num_steps = 2;
      CHECK(got.parameters == run(two).parameters);  // as without the flipped bit
      // Alternating buffers also belong to another part.
      if (run_layout.level < zero::level::gradients) CHECK(got.named == std::set{got.unit});
    }
  }
  CHECK(struck > 25);
  CHECK(untold < 5);
}

TEST_CASE("corruption check: a rank that is always wrong is told from one that was wrong once") {
  std::size_t n = 0;
  std::set<int> seen;  // tested numbers of data ranks
  for (auto const& run_layout : some_layouts(16)) {
    CAPTURE(text(run_layout));
    auto const shape = run_layout.shape();
    int const ranks = shape.ranks();
    int const data = shape.size<axis::replicate, axis::shard>();
    ++n;
    strike const hit{static_cast<int>(n) % ranks, 0, 0, true};
    auto const got = run_with(run_layout, hit, n * 41);
    CAPTURE(hit.rank);
    REQUIRE(got.hits > 0);
    seen.insert(data);
    if (data == 1) {  // the rank agrees with itself
      CHECK(got.faults.empty());
      continue;
    }
    CHECK_FALSE(got.may_repeat);
    CHECK_FALSE(got.updated);
    CHECK(ranks_in(got.faults, false).empty());
    std::set<int> expected{hit.rank};
    if (data == 2) {
      int const own_data = shape.position<axis::replicate, axis::shard>(hit.rank);
      expected.insert(with_data_of(shape, hit.rank, 1 - own_data));
    }
    CHECK(ranks_in(got.faults, true) == expected);
    for (auto const& fault : got.faults) CHECK(fault.certain == (data > 2));
  }
  CHECK(seen.contains(1));
  CHECK(seen.contains(2));
  CHECK(std::ranges::any_of(seen, [](int data) { return data > 2; }));
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
  std::set<std::size_t> seen;  // tested numbers of copies
  for (auto const& run_layout : some_layouts(16))
    for (bool const states : {false, true}) {
      CAPTURE(text(run_layout));
      CAPTURE(states);
      ++n;
      int const struck_rank = static_cast<int>(n) % run_layout.shape().ranks();
      element_name struck;
      std::set<int> holders;
      std::vector<fingerprint_fault> faults;
      std::mutex lock;
      parallel::threads::run(
          run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
            checked_rank one(parallel::any_communicator(std::move(comm)), run_layout);
            REQUIRE(one.step(0).faults.empty());
            one.stepper().gather_values(one.one().compute());
            if (one.rank() == struck_rank) {
              std::size_t count = 0, seen_here = 0;
              for_each_held(one.stepper(), states, [&](auto const&, ring&) { ++count; });
              for_each_held(one.stepper(), states, [&](element_name const& element, ring& value) {
                if (seen_here++ != n * 7919 % count) return;
                struck = element;
                value ^= ring{1} << n * 11 % 64;
              });
            }
            auto const step_done = one.step(1);
            std::scoped_lock const guard(lock);
            for_each_held(one.stepper(), states, [&](element_name const& element, ring&) {
              if (element == struck) holders.insert(one.rank());
            });
            if (one.rank() != struck_rank) return;
            faults = step_done.faults;
            if (faults.empty()) return;
            CHECK_FALSE(step_done.step.updated());
            CHECK_FALSE(step_done.may_repeat());
          });
      CAPTURE(struck_rank);
      CAPTURE(struck.first);
      seen.insert(holders.size());
      CHECK(ranks_in(faults, false).empty());
      if (holders.size() == 1) {
        CHECK(faults.empty());
        continue;
      }
      CHECK(ranks_in(faults, true) == (holders.size() == 2 ? holders : std::set{struck_rank}));
      CHECK(faults.size() == 1);
      for (auto const& fault : faults)
        CHECK(fault.subject.kind == (states ? fingerprint_kind::states : fingerprint_kind::values));
    }
  CHECK(seen.contains(1));
  CHECK(seen.contains(2));
  CHECK(seen.size() > 3);
}

TEST_CASE("corruption check: memory that is misread once is not a persistent fault") {
  layout run_layout{.ranks = 2, .level = zero::level::optimizer, .microbatch = 2};
  run_layout.replicas = 2;
  std::set<fingerprint_kind> seen;
  for (int struck = 0; struck < 40; struck += 3) {
    CAPTURE(struck);
    int misread_count = 0;
    std::vector<fingerprint_fault> faults;
    parallel::threads::run(4, [&](parallel::threads::communicator& comm) {
      auto const fault = std::make_shared<flipping::fault>();
      checked_rank one(parallel::any_communicator(std::move(comm)), run_layout, fault);
      bool const is_struck = one.rank() == 2;
      fault->bit = 5;
      if (is_struck) fault->misreads = [&] { return misread_count++ == struck; };
      auto const step_done = one.step(0);
      fault->misreads = {};
      CHECK(step_done.faults.empty() == step_done.step.updated());
      CHECK(step_done.may_repeat());
      if (is_struck) faults = step_done.faults;
      CHECK(one.step(0).step.updated());
    });
    REQUIRE(misread_count > struck);
    CHECK(faults.size() == 1);
    for (auto const& one : faults) {
      CHECK(one.ranks == std::vector{2});
      seen.insert(one.subject.kind);
    }
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("corruption check: repeated computations add nothing to sums over ranks") {
  using sums = std::map<std::pair<std::string, parallel::operation_kind>, std::uint64_t>;
  for (auto const level : all_levels) {
    layout const run_layout{.ranks = 3, .level = level, .microbatch = 1};
    CAPTURE(static_cast<int>(level));
    auto const sent = [&](bool checked) {
      sums out;
      parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
        bool const is_struck = comm.rank() == 1;
        auto const recorder = std::make_shared<parallel::flight_recorder>();
        parallel::recorded counted(std::move(comm), recorder);
        checked_rank one(parallel::any_communicator(counted.split(0)), run_layout);
        for (int step = 0; step < 2; ++step) {
          if (checked)
            CHECK(one.step(step).step.updated());
          else
            static_cast<void>(one.one().step(step));
        }
        if (!is_struck) return;
        for (auto const& [hit, total] : recorder->totals())
          if (!hit.first.empty() && hit.second != parallel::operation_kind::all_gather)
            out[hit] = total.sent;
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
                              float last_factor, float wrong, bool limited = false) {
  std::vector<float> out;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::host::stream compute, exchanges;
    parallel::arena memory(device.allocate<std::byte>(4096));
    given_gradients<float> model(
        {{"a", {4, 3}, std::vector<float>(12, 2.0F), std::vector<float>(12, 0.5F)},
         {"b", {5}, std::vector<float>(5, -1.0F), std::vector<float>(5, 0.25F)}});
    parallel::train::stepper step(model, device, comm, parallel::decoupled_adamw{},
                                  {.level = level, .keep_finite = true, .order = order});
    model.set_weights(step);
    parallel::train::corruption_check check(step);
    for (int number = 0; number < 3; ++number) {
      auto const batch_of = [&](int data_rank) {
        return given_microbatch<float>{data_rank == 2 ? last_factor : float(data_rank + 2), 1};
      };
      bool const spoilt = wrong != 0 && number == 2;
      bool const is_above_limit = limited && number == 1;
      step.limit(is_above_limit ? step_limits{.loss = 0.1} : step_limits{});
      float const third = 3 + (spoilt && comm.rank() == 1 ? wrong : 0);
      model.set_gradient(1, {float(number), 0.1F, third, -0.3F, 4.0F});
      std::vector<given_microbatch<float>> const batches{batch_of(comm.rank()),
                                                         batch_of(comm.rank())};
      std::vector<index> const first{comm.rank(), comm.rank()};
      parallel::position const current{.step = static_cast<std::uint32_t>(number)};
      if (!checked) {
        static_cast<void>(step.step(compute, exchanges, memory, std::span(batches),
                                    std::span(first), current, 1.0));
        continue;
      }
      auto const step_done =
          check.step(compute, exchanges, memory, std::span(batches), std::span(first), current, 1.0,
                     [&](int data_rank) {
                       return decltype(check)::work{batch_of(data_rank), data_rank};
                     });
      CHECK(step_done.step.outcome == (spoilt           ? step_outcome::corrupted
                                       : is_above_limit ? step_outcome::above_limit
                                                        : step_outcome::updated));
      CHECK(ranks_in(step_done.faults, true) == (spoilt ? std::set{1} : std::set<int>{}));
      CHECK(ranks_in(step_done.faults, false).empty());
    }
    step.gather_values(compute);
    if (comm.rank() == 0)
      model.for_each_held(step, [&](std::size_t, index, std::span<float> values) {
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
