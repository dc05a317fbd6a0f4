// One run of the ring model on one rank, and everything it produced: what layouts are compared by.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
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
constexpr zero::stage all_stages[] = {zero::stage::none, zero::stage::optimizer,
                                      zero::stage::gradients, zero::stage::parameters};

/// Everything a run produced, by name.
struct outcome {
  std::vector<ring> losses, squared_norms;
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<ring>> gradients;   // of the last step
  std::map<std::string, std::vector<ring>> parameters;  // after the last step
  /// Of each step, if measured.
  std::vector<std::vector<parallel::train::tensor_squares<ring>>> tensors = {};
  bool frozen_is_lean = true;  // frozen segments have values and nothing else
  bool ranks_agree = true;     // ranks that hold the same elements hold the same values

  // Which elements of a tensor above some rank has given.
  std::map<std::vector<ring> const*, std::vector<bool>> known;

  /// Whether every element of every tensor was given by some rank.
  [[nodiscard]] bool complete() const {
    return std::ranges::all_of(
        known, [](auto const& of) { return std::ranges::all_of(of.second, std::identity()); });
  }

  friend bool operator==(outcome const& a, outcome const& b) {
    auto const all = [](outcome const& o) {
      return std::tie(o.losses, o.squared_norms, o.tokens, o.gradients, o.parameters, o.tensors,
                      o.frozen_is_lean, o.ranks_agree);
    };
    return all(a) == all(b) && a.complete() && b.complete();
  }
};

struct layout {
  int ranks = 1;  // with other data: shards of a ZeRO stage, or replicas
  zero::stage stage = zero::stage::none;
  index microbatch = 1;
  std::size_t bucket_bytes = 1;
  /// A parameter is frozen, or in group 1, when its name contains one of these.
  std::vector<std::string> frozen = {};
  std::vector<std::string> second_group = {};
  int num_steps = steps;
  ring_options model = {};
  bool measure = false;
  int replicas = 1;  // of all shards
  int pipeline = 1;
  parallel::train::pipeline_options schedule = {};
  bool reshard = true;  // after the forward pass, at stage parameters

  [[nodiscard]] parallel::training_layout shape() const {
    auto const axes = parallel::training_layout{}
                          .with<parallel::axis::replicate>(replicas)
                          .with<parallel::axis::pipeline>(pipeline);
    return stage == zero::stage::none ? axes.with<parallel::axis::replicate>(ranks * replicas)
                                      : axes.with<parallel::axis::shard>(ranks);
  }
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
      for (auto const& gradients : unit.memory.segments()[s].gradients) {
        auto const begin =
            unit.memory.gradients_divided() ? unit.memory.segments()[s].owned.begin : 0;
        unit.memory.layout().segments()[s].for_each_piece(
            begin, begin + static_cast<index>(gradients.size()),
            [&](auto const&, index first, index last, index at) {
              for (index i = at; i < at + last - first; ++i)
                gradients.data()[i - begin] = static_cast<ring>((rank + 3) * (i + 7));
            });
      }
}

/// Adds the elements of a segment's range, which begins at `values`, to the tensors they belong to;
/// those that another rank gave before must be the same.
inline void add_elements(std::map<std::string, std::vector<ring>>& tensors, auto const& segment,
                         zero::range range, std::span<ring const> values, outcome& out) {
  segment.for_each_piece(
      range.begin, range.end, [&](auto const& p, index first, index last, index at) {
        index size = 1;
        for (index const extent : p.tensor_extents()) size *= extent;
        auto& tensor = tensors[p.name];
        auto& known = out.known[&tensor];
        tensor.resize(static_cast<std::size_t>(size));
        known.resize(static_cast<std::size_t>(size));
        p.for_each_run(first, last, [&](index from, index count, index global) {
          for (index i = 0; i < count; ++i) {
            auto const to = static_cast<std::size_t>(global + i);
            ring const value =
                values[static_cast<std::size_t>(at - range.begin + from - first + i)];
            if (known[to] && tensor[to] != value) out.ranks_agree = false;
            known[to] = true;
            tensor[to] = value;
          }
        });
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
  ring_model model(how.model.blocks, 4, vocabulary, how.model);
  parallel::train::training_groups groups(comm.split(0), how.shape());
  auto const data = groups.place();
  parallel::train::stepper stepper(model, device, groups, groups_of(how),
                                   {.stage = how.stage,
                                    .bucket_bytes = how.bucket_bytes,
                                    .reshard_after_forward = how.reshard,
                                    .pipeline = how.schedule});
  stepper.initialise(42);
  stepper.measure_tensors(how.measure);
  auto const mine = parallel::data::share_of(global_batch, data.replica * data.shards + data.shard,
                                             data.data_ranks());
  auto const most = stepper.least_microbatches(static_cast<std::size_t>(
      parallel::data::most_microbatches(global_batch, data.data_ranks(), how.microbatch)));
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
    batches.resize(most);  // the last ones of some ranks are empty
    first.resize(most);
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
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& m = unit.memory.segments()[s];
      auto const& segment = unit.memory.layout().segments()[s];
      if (segment.key.trainable)
        add_elements(out.gradients, segment, m.owned, unit.memory.owned_gradients(s), out);
      else if (!m.gradients.empty() || !m.states.empty() || m.master.size() > 0)
        out.frozen_is_lean = false;
      // every rank must hold the same values of everything
      if (unit.memory.values_divided())
        add_elements(out.parameters, segment, m.owned, m.values.span(), out);
      else
        add_elements(out.parameters, segment, {0, segment.size}, m.values.span(), out);
    }
}

/// All ranks as threads.
inline outcome run(layout const& how) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(how.shape().ranks(), [&](parallel::threads::communicator& comm) {
    run_rank(comm, how, out, lock);
  });
  return out;
}

}  // namespace test
