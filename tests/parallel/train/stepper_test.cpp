// Exact ring tests: every data-parallel layout equals one rank bit for bit, in loss, squared norm,
// every gradient and every parameter after k steps.
#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring_model.hpp"

namespace stepper_test {

using namespace parallel;
using parallel::index;  // not the one of <strings.h>
using test::ring;

constexpr index global_batch = 11;
constexpr index length = 5;
constexpr index vocabulary = 13;
constexpr int steps = 3;

/// Everything a run produced, by name.
struct outcome {
  std::vector<ring> losses, squared_norms;
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<ring>> gradients;   // of the last step
  std::map<std::string, std::vector<ring>> parameters;  // after the last step
  friend bool operator==(outcome const&, outcome const&) = default;
};

struct layout {
  int ranks = 1;
  zero::stage stage = zero::stage::none;
  index microbatch = 1;
  std::size_t bucket_bytes = 1;
};

std::int32_t token(index step, index sequence, index at) {
  philox const random(7, stream_id("tokens"), static_cast<std::uint32_t>(step));
  return static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(sequence * 97 + at)) %
                                   vocabulary);
}

/// Runs `steps` steps of one rank and adds what it owns to `out`.
template <class Comm>
void run_rank(Comm& comm, layout const& how, outcome& out, std::mutex& lock) {
  host::device device;
  host::stream compute;
  host::stream traffic;
  auto const storage = device.allocate<std::byte>(std::size_t{4} << 20);
  arena memory(storage);
  test::ring_model model(3, 4, vocabulary);
  train::stepper stepper(model, device, comm, test::ring_momentum{},
                         {.stage = how.stage, .bucket_bytes = how.bucket_bytes});
  stepper.initialise(42);
  auto const mine = data::share_of(global_batch, comm.rank(), comm.size());
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<std::int32_t>> ids, labels;
    std::vector<test::ring_microbatch> batches;
    std::vector<index> first;
    for (auto const& part : data::microbatches(mine, how.microbatch)) {
      auto& x = ids.emplace_back();
      auto& y = labels.emplace_back();
      for (index sequence = part.begin; sequence < part.end; ++sequence)
        for (index at = 0; at < length; ++at) {
          x.push_back(token(step, sequence, at));
          // uneven loss tokens: later sequences have fewer labels
          y.push_back(at + sequence % 4 < length ? token(step, sequence, at + 1) : -100);
        }
      index const rows = part.size() * length;
      batches.push_back({{x.data(), {rows}}, {y.data(), {rows}}, part.size(), length});
      first.push_back(part.begin);
    }
    // nested vectors were moved by growth, not their elements
    auto const result = stepper.step(compute, traffic, memory, std::span(std::as_const(batches)),
                                     std::span(std::as_const(first)),
                                     {.seed = 42, .step = static_cast<std::uint32_t>(step)}, 1.0);
    std::scoped_lock const guard(lock);
    if (comm.rank() == 0) {
      out.losses.push_back(result.sums.loss);
      out.squared_norms.push_back(result.squared_norm);
      out.tokens.push_back(result.sums.tokens);
    }
  }
  std::scoped_lock const guard(lock);
  for (auto const& unit : stepper.units()) {
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& m = unit.memory.segments()[s];
      auto const& segment = unit.memory.layout().segments()[s];
      segment.for_each_piece(
          m.owned.begin, m.owned.end, [&](auto const& p, index from, index to, index at) {
            auto& gradient = out.gradients[p.name];
            gradient.resize(static_cast<std::size_t>(p.size()));
            for (index i = from; i < to; ++i)
              gradient[static_cast<std::size_t>(i)] = m.gradients[0].data()[at + i - from];
          });
      // every rank must hold the same values of everything
      segment.for_each_piece(0, segment.size, [&](auto const& p, index, index, index at) {
        std::vector<ring> const values(m.values.data() + at, m.values.data() + at + p.size());
        auto const [place, added] = out.parameters.emplace(p.name, values);
        CHECK(place->second == values);
      });
    }
  }
}

outcome run(layout const& how) {
  outcome out;
  std::mutex lock;
  threads::run(how.ranks, [&](threads::communicator& comm) { run_rank(comm, how, out, lock); });
  return out;
}

TEST_CASE("data parallel x accumulation x ZeRO equal one rank bit for bit") {
  outcome const expected = run({.microbatch = global_batch});
  REQUIRE(expected.losses.size() == steps);
  REQUIRE(expected.losses[0] != expected.losses[1]);
  REQUIRE(expected.parameters.size() == 1 + 3 * 6);
  int layouts = 0;
  for (int const ranks : {1, 2, 3, 4, 5, 7, 8})
    for (auto const stage : {zero::stage::none, zero::stage::optimizer})
      for (index const microbatch : {1, 2, 3})
        for (std::size_t const bucket : {std::size_t{1}, std::size_t{2000}, std::size_t{1} << 30}) {
          CAPTURE(ranks);
          CAPTURE(static_cast<int>(stage));
          CAPTURE(microbatch);
          CAPTURE(bucket);
          CHECK(run({ranks, stage, microbatch, bucket}) == expected);
          ++layouts;
        }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

TEST_CASE("ranks without a sequence take part in every reduction") {
  // 13 ranks share 11 sequences
  CHECK(run({.ranks = 13, .stage = zero::stage::optimizer}) == run({.microbatch = global_batch}));
}

}  // namespace stepper_test
