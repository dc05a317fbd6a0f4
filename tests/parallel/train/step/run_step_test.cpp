// run_step with plans without units: a pipeline of ring maps, exact modulo 2^64. The order of
// events, not timing, shows that messages overlap with computation: one of the two is held until
// the other has reached a given point. Without overlap the test would wait for ever.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/train/step/lower_step.hpp>
#include <parallel/train/step/run_step.hpp>
#include <parallel/train/step/verify_step.hpp>

#include "support/trace.hpp"

namespace run_step_test {
namespace {

using namespace std::chrono_literals;
namespace pipeline = parallel::pipeline;
namespace train = parallel::train;
using parallel::host::stream;
using pipeline::microbatch_task;
using pipeline::schedule;

using ring = std::uint64_t;

/// A pseudorandom number that depends on x only.
constexpr ring noise(ring x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 31U);
}
ring weight(parallel::index block) { return noise(1000 + static_cast<ring>(block)); }
ring input_element(int m, std::size_t i) { return noise(77000 + 50 * static_cast<ring>(m) + i); }
ring loss_weight(int m, std::size_t i) { return noise(55000 + 50 * static_cast<ring>(m) + i); }

/// Which microbatches have no sequence.
enum class sequences : std::uint8_t { in_all, in_some };
bool is_empty_of(sequences filled, int m) {
  return filled == sequences::in_some && noise(static_cast<ring>(m)) % 3 == 0;
}
std::size_t length_of(sequences filled, int m) {
  return is_empty_of(filled, m) ? 0 : 1 + noise(static_cast<ring>(m) + 99) % 7;
}

/// The loss, and by block the gradient of its weight.
struct outcome {
  ring loss = 0;
  std::vector<ring> gradients;
  friend bool operator==(outcome const&, outcome const&) = default;
};
outcome& operator+=(outcome& sum, outcome const& addend) {
  sum.gradients.resize(addend.gradients.size());
  sum.loss += addend.loss;
  for (std::size_t b = 0; b < addend.gradients.size(); ++b) sum.gradients[b] += addend.gradients[b];
  return sum;
}

/// Block b computes y = w x + x²; the loss is the sum of c y over the elements of all microbatches.
outcome loop(schedule const& s, sequences filled) {
  outcome out{0, std::vector<ring>(static_cast<std::size_t>(s.stages()))};
  for (int m = 0; m < s.microbatches; ++m)
    for (std::size_t i = 0; i < length_of(filled, m); ++i) {
      std::vector<ring> x{input_element(m, i)};
      for (int b = 0; b < s.stages(); ++b) x.push_back(weight(b) * x.back() + x.back() * x.back());
      ring dy = loss_weight(m, i);
      out.loss += dy * x.back();
      for (int b = s.stages() - 1; b >= 0 && !s.forward_only; --b) {
        auto const number = static_cast<std::size_t>(b);
        out.gradients[number] += dy * x[number];
        dy *= weight(b) + 2 * x[number];
      }
    }
  return out;
}

/// The plans of all ranks, which are proved. Each stage is one block, and no part has a unit.
std::vector<train::step_plan> plans_of(schedule const& s) {
  std::vector<train::step_plan> out;
  auto const mode = s.forward_only ? parallel::pass::inference : parallel::pass::training;
  for (int rank = 0; rank < s.ranks; ++rank) {
    std::vector<train::stage_range> stages;
    for (int chunk = 0; chunk < s.stages_per_rank; ++chunk) {
      int const stage = s.stage_of(rank, chunk);
      stages.push_back({stage, stage + 1, stage == 0, stage == s.stages() - 1});
    }
    out.push_back(train::lower_step(pipeline::lower(s, rank), stages, {}, {.mode = mode}));
  }
  train::require_runs(out);
  return out;
}

/// The part of one rank. `on_pass(n)` is called at the beginning of the n-th pass of a block.
class program {
 public:
  program(train::step_plan const& plan, sequences filled, std::function<void(int)> on_pass = {})
      : plan_(plan), filled_(filled), on_pass_(std::move(on_pass)) {
    for (auto const& chunk : plan.memory) {
      auto const buffers = [](int count) {
        return std::vector(static_cast<std::size_t>(count), std::vector<ring>(7, 5));
      };
      chunks_.push_back({buffers(chunk.boundaries), buffers(chunk.boundaries), buffers(chunk.slots),
                         buffers(chunk.slots), buffers(chunk.slots)});
    }
    std::size_t const blocks = plan.memory.size() * static_cast<std::size_t>(plan.ranks);
    results_.gradients.resize(blocks);
  }

  [[nodiscard]] bool is_empty(int m) const { return is_empty_of(filled_, m); }
  std::span<ring> input(microbatch_task const& t) {
    return view(chunk(t).input, t.boundary, t.microbatch);
  }
  std::span<ring> input_gradient(microbatch_task const& t) {
    return view(chunk(t).input_gradient, t.boundary, t.microbatch);
  }
  std::span<ring> output(microbatch_task const& t) {
    return view(chunk(t).output, t.slot, t.microbatch);
  }
  std::span<ring> output_gradient(microbatch_task const& t) {
    return view(chunk(t).output_gradient, t.slot, t.microbatch);
  }

  void compute(train::action const& a, stream& compute_stream) {
    if (a.kind != train::action_kind::pass) return;
    bool const is_block = a.model_part != train::embed && a.model_part < plan_blocks();
    compute_stream.enqueue([this, a, n = is_block ? passes_++ : -1] {
      if (n >= 0 && on_pass_) on_pass_(n);
      pass(a, n >= 0);
    });
  }
  void exchange(train::action const&, stream&, std::vector<parallel::request>&) {}

  /// The rank's results; valid when its stream has completed.
  [[nodiscard]] outcome const& results() const { return results_; }
  [[nodiscard]] int passes() const { return passes_; }

 private:
  using buffers = std::vector<std::vector<ring>>;
  struct chunk_memory {
    buffers input, input_gradient;           // by boundary buffer
    buffers saved, output, output_gradient;  // by slot
  };

  [[nodiscard]] parallel::index plan_blocks() const {
    return static_cast<parallel::index>(results_.gradients.size());
  }
  chunk_memory& chunk(microbatch_task const& t) { return chunks_[plan_.chunk_of(t)]; }
  std::span<ring> view(buffers& memory, int number, int m) const {
    return std::span(memory.at(static_cast<std::size_t>(number))).first(length_of(filled_, m));
  }

  void pass(train::action const& a, bool is_block) {
    using enum train::pass_kind;
    auto const& t = a.task;
    auto const x = view(chunk(t).saved, t.slot, t.microbatch);
    auto const y = output(t), dy = output_gradient(t);
    auto const b = static_cast<std::size_t>(a.model_part);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ring const c = loss_weight(t.microbatch, i);
      if (!is_block) {
        if (a.model_part == train::embed && a.pass == forward)
          x[i] = input_element(t.microbatch, i);
        if (a.model_part == plan_blocks()) results_.loss += c * y[i], dy[i] = c;
        continue;
      }
      if (a.pass == forward) {
        if (t.stage > 0) x[i] = input(t)[i];
        y[i] = weight(a.model_part) * x[i] + x[i] * x[i];
      }
      if ((a.pass == backward || a.pass == backward_input) && t.stage > 0)
        input_gradient(t)[i] = dy[i] * (weight(a.model_part) + 2 * x[i]);
      if (a.pass == backward || a.pass == backward_weight) results_.gradients[b] += dy[i] * x[i];
    }
  }

  train::step_plan const& plan_;
  sequences filled_;
  std::function<void(int)> on_pass_;
  std::vector<chunk_memory> chunks_;
  outcome results_;
  int passes_ = 0;
};

template <class Comm>
outcome run_rank(Comm& comm, train::step_plan const& plan, sequences filled = sequences::in_all,
                 std::function<void(int)> on_pass = {}) {
  program own_program(plan, filled, std::move(on_pass));  // outlives all work on the streams
  pipeline::p2p_streams<Comm> links(comm);
  stream compute, exchanges;
  train::step_streams<stream, stream> const streams{.compute = compute, .reductions = &exchanges};
  auto const requests = train::run_step(plan, streams, links, own_program);
  compute.synchronize();
  return own_program.results();
}

/// Runs all ranks, each with decorate(its communicator), and sums their results.
template <class Decorate>
outcome run(schedule const& s, sequences filled, Decorate const& decorate) {
  auto const plans = plans_of(s);
  std::vector<outcome> parts(plans.size());
  parallel::threads::run(s.ranks, [&](parallel::threads::communicator& inner) {
    auto const rank = static_cast<std::size_t>(inner.rank());
    auto comm = decorate(std::move(inner));
    parts[rank] = run_rank(comm, plans[rank], filled);
  });
  outcome sum;
  for (auto const& part : parts) sum += part;
  return sum;
}

TEST_CASE("run_step: passes of every schedule, evaluation too, give the bits of a loop") {
  using namespace parallel::pipeline;
  for (auto const& s :
       {gpipe(1, 3), gpipe(3, 5), one_f_one_b(4, 3), one_f_one_b(5, 11), zb_h1(2, 1), zb_h1(4, 9),
        interleaved(1, 4, 3), interleaved(3, 6, 2), interleaved(4, 8, 4), zb_v(1, 2), zb_v(4, 10),
        dual_pipe_v(1, 3), dual_pipe_v(4, 11), forward_only(1, 2), forward_only(4, 9),
        forward_only(3, 7, 2), forward_only(3, 8, 2, placement::v)})
    for (auto const filled : {sequences::in_all, sequences::in_some}) {
      CAPTURE(std::string(s.name));
      CAPTURE(s.ranks);
      CAPTURE(static_cast<int>(filled));
      CHECK(run(s, filled, [](auto comm) { return comm; }) == loop(s, filled));
    }
}

TEST_CASE("run_step: a microbatch without sequences has passes but no messages") {
  schedule const s = pipeline::one_f_one_b(2, 5);
  auto const plans = plans_of(s);
  std::uint64_t present = 0;
  for (int m = 0; m < s.microbatches; ++m) present += is_empty_of(sequences::in_some, m) ? 0 : 1;
  REQUIRE(present > 0);
  REQUIRE(present < 5);
  parallel::threads::run(2, [&](parallel::threads::communicator& inner) {
    auto const& plan = plans[static_cast<std::size_t>(inner.rank())];
    parallel::faulty comm(std::move(inner), {});
    int passes = 0;
    (void)run_rank(comm, plan, sequences::in_some, [&](int) { ++passes; });
    CHECK(comm.calls() == 2 * present);
    CHECK(passes == 2 * 5);
  });
}

TEST_CASE("run_step: a single rank sends nothing between its stages") {
  using namespace parallel::pipeline;
  for (auto const& s : {gpipe(1, 3), interleaved(1, 3, 4), zb_v(1, 4), dual_pipe_v(1, 5)}) {
    parallel::faulty comm(parallel::single(), {});
    CHECK(run_rank(comm, plans_of(s).front()) == loop(s, sequences::in_all));
    CHECK(comm.calls() == 0);
  }
}

TEST_CASE("run_step: every dropped, doubled or divided message changes the result") {
  using namespace parallel::pipeline;
  int mutants = 0;
  for (auto const& s : {gpipe(2, 3), one_f_one_b(3, 4), interleaved(2, 4, 2), zb_h1(3, 4),
                        zb_v(3, 4), dual_pipe_v(2, 5)}) {
    auto const expected = loop(s, sequences::in_all);
    auto const plans = plans_of(s);
    for (int rank = 0; rank < s.ranks; ++rank) {
      auto const calls = static_cast<std::uint64_t>(
          std::ranges::count_if(plans[static_cast<std::size_t>(rank)].actions,
                                [](train::action const& a) { return a.is_message(); }));
      for (std::uint64_t k = 0; k < calls; ++k)
        for (auto const kind : {parallel::fault_kind::drop, parallel::fault_kind::twice,
                                parallel::fault_kind::divide}) {
          CAPTURE(std::string(s.name));
          CAPTURE(rank);
          CAPTURE(k);
          CAPTURE(static_cast<int>(kind));
          auto const broken = run(s, sequences::in_all, [&](parallel::threads::communicator comm) {
            auto const fault = comm.rank() == rank ? parallel::fault{k, kind} : parallel::fault{};
            return parallel::faulty(std::move(comm), fault);
          });
          CHECK_FALSE(broken == expected);
          ++mutants;
        }
    }
  }
  CHECK(mutants > 400);
}

TEST_CASE("run_step: the plan of another rank is refused") {
  auto const plans = plans_of(pipeline::gpipe(2, 3));
  parallel::single comm;
  auto const message = parallel::conformance::message_of([&] { (void)run_rank(comm, plans[1]); });
  CHECK(message.find("the plan is rank 1's of 2, but the communicator's rank is 0 of 1") !=
        std::string::npos);
}

/// Runs two ranks. On `rank`, before_pass(log, n) is called in the n-th pass of a block,
/// message(log, k) before the k-th message, and check(log) at the end.
void run_traced(schedule const& s, int rank,
                std::function<void(test::trace&, int)> const& before_pass,
                std::function<void(test::trace&, int)> const& message,
                std::function<void(test::trace&)> const& check) {
  auto const plans = plans_of(s);
  parallel::threads::run(2, [&](parallel::threads::communicator& inner) {
    test::trace log;
    bool const is_watched = inner.rank() == rank;
    auto const& plan = plans[static_cast<std::size_t>(inner.rank())];
    test::delayed comm(std::move(inner), log, [&](int k) {
      if (is_watched) message(log, k);
    });
    (void)run_rank(comm, plan, sequences::in_all, [&](int n) {
      log.add(parallel::concat("pass ", n));
      if (is_watched) before_pass(log, n);
    });
    if (is_watched) check(log);
  });
}

TEST_CASE("run_step: the next activation is received while the one before it is computed") {
  // Rank 1 receives 0 and 1 into two boundary buffers, runs F0 and B0, sends the gradient of 0.
  run_traced(
      pipeline::one_f_one_b(2, 4), 1,
      [](test::trace& log, int n) {
        if (n == 0) CHECK(log.await("collective 1 ends", 60s));
      },
      [](test::trace&, int) {},
      [](test::trace& log) { CHECK(log.in_order("collective 1 ends", "pass 1")); });
}

/// Checks that message `k` of the rank cannot be complete before its pass `n` has begun, which it
/// waits for.
void check_overlap(schedule const& s, int rank, int k, int n) {
  auto const pass = parallel::concat("pass ", n);
  run_traced(
      s, rank, [](test::trace&, int) {},
      [&](test::trace& log, int message) {
        if (message == k) CHECK(log.await(pass, 60s));
      },
      [&](test::trace& log) {
        CHECK(log.in_order(pass, parallel::concat("collective ", k, " ends")));
      });
}

TEST_CASE("run_step: the next forward pass begins before the last activation has been sent") {
  check_overlap(pipeline::gpipe(2, 3), 0, 0, 1);  // rank 0 runs F0, sends message 0, runs F1
}

TEST_CASE("run_step: a slot is used again before its last microbatch's gradient has been sent") {
  auto const s = pipeline::one_f_one_b(2, 4);
  REQUIRE(plans_of(s)[1].memory[0].slots == 1);
  check_overlap(s, 1, 2, 2);  // rank 1 runs F0 and B0, sends message 2, runs F1
}

TEST_CASE("run_step: weight gradients are computed while the input gradient is sent") {
  // Rank 1 runs F0, I0, F1, I1, W0; message 3, after three receives, is the gradient of 0.
  check_overlap(pipeline::zb_h1(2, 4), 1, 3, 4);
}

}  // namespace
}  // namespace run_step_test
