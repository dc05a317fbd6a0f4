// One run of the ring model on one rank, and everything it produced: what layouts are compared by.
#pragma once

#include <algorithm>
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

namespace test {

namespace zero = parallel::zero;

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
  /// Of each step, if measured.
  std::vector<std::vector<parallel::train::tensor_squares<ring>>> tensors = {};
  bool frozen_is_lean = true;  // frozen segments have values and nothing else
  bool ranks_agree = true;     // every rank holds the same parameters
  friend bool operator==(outcome const&, outcome const&) = default;
};

struct layout {
  int ranks = 1;
  zero::stage stage = zero::stage::none;
  index microbatch = 1;
  std::size_t bucket_bytes = 1;
  /// A parameter is frozen, or in group 1, when its name contains one of these.
  std::vector<std::string> frozen = {};
  std::vector<std::string> second_group = {};
  int num_steps = steps;
  ring_options model = {};
  bool measure = false;
};

[[nodiscard]] inline parallel::train::optimizer_groups<ring_momentum> groups_of(layout const& how) {
  auto const any = [](std::vector<std::string> const& parts, std::string const& name) {
    return std::ranges::any_of(
        parts, [&](auto const& part) { return name.find(part) != std::string::npos; });
  };
  return {{ring_momentum{}, ring_momentum{.rate = 11}}, [=](std::string const& name) {
            return parallel::segment_key{.trainable = !any(how.frozen, name),
                                         .group = any(how.second_group, name) ? 1 : 0};
          }};
}

inline std::int32_t token(index step, index sequence, index at) {
  parallel::philox const random(7, parallel::stream_id("tokens"), static_cast<std::uint32_t>(step));
  return static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(sequence * 97 + at)) %
                                   vocabulary);
}

/// Leaves other numbers on every rank in all gradients: a step must not depend on what it finds.
inline void spoil_gradients(auto& stepper, int rank) {
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s)
      for (auto const& gradients : unit.memory.segments()[s].gradients)
        unit.memory.layout().segments()[s].for_each_piece(
            0, static_cast<index>(gradients.size()),
            [&](auto const& parameter, index, index, index at) {
              for (index i = at; i < at + parameter.size(); ++i)
                gradients.data()[i] = static_cast<ring>((rank + 3) * (i + 7));
            });
}

/// Runs the steps of one rank and adds what it owns to `out`.
template <class Comm>
void run_rank(Comm& comm, layout const& how, outcome& out, std::mutex& lock) {
  parallel::host::device device;
  parallel::host::stream compute;
  parallel::host::stream traffic;
  auto const storage = device.allocate<std::byte>(std::size_t{4} << 20);
  parallel::arena memory(storage);
  ring_model model(3, 4, vocabulary, how.model);
  parallel::train::stepper stepper(model, device, comm, groups_of(how),
                                   {.stage = how.stage, .bucket_bytes = how.bucket_bytes});
  stepper.initialise(42);
  stepper.measure_tensors(how.measure);
  auto const mine = parallel::data::share_of(global_batch, comm.rank(), comm.size());
  for (int step = 0; step < how.num_steps; ++step) {
    std::vector<std::vector<std::int32_t>> ids, labels;
    std::vector<ring_microbatch> batches;
    std::vector<index> first;
    for (auto const& part : parallel::data::microbatches(mine, how.microbatch)) {
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
    spoil_gradients(stepper, comm.rank());
    // nested vectors were moved by growth, not their elements
    auto const result = stepper.step(compute, traffic, memory, std::span(std::as_const(batches)),
                                     std::span(std::as_const(first)),
                                     {.seed = 42, .step = static_cast<std::uint32_t>(step)}, 1.0);
    std::scoped_lock const guard(lock);
    if (comm.rank() == 0) {
      out.losses.push_back(result.sums.loss);
      out.squared_norms.push_back(result.squared_norm);
      out.tokens.push_back(result.sums.tokens);
      if (how.measure) out.tensors.push_back(result.tensors);
    }
  }
  std::scoped_lock const guard(lock);
  for (auto const& unit : stepper.units()) {
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& m = unit.memory.segments()[s];
      auto const& segment = unit.memory.layout().segments()[s];
      if (segment.key.trainable)
        segment.for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index from, index to, index at) {
              auto& gradient = out.gradients[p.name];
              gradient.resize(static_cast<std::size_t>(p.size()));
              for (index i = from; i < to; ++i)
                gradient[static_cast<std::size_t>(i)] = m.gradients[0].data()[at + i - from];
            });
      else if (!m.gradients.empty() || !m.states.empty() || m.master.size() > 0)
        out.frozen_is_lean = false;
      // every rank must hold the same values of everything
      segment.for_each_piece(0, segment.size, [&](auto const& p, index, index, index at) {
        std::vector<ring> const values(m.values.data() + at, m.values.data() + at + p.size());
        auto const [place, added] = out.parameters.emplace(p.name, values);
        if (place->second != values) out.ranks_agree = false;
      });
    }
  }
}

/// All ranks as threads.
inline outcome run(layout const& how) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(
      how.ranks, [&](parallel::threads::communicator& comm) { run_rank(comm, how, out, lock); });
  return out;
}

}  // namespace test
