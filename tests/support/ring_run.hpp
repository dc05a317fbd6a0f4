// One run of the ring model on one rank, and everything it produced: what layouts are compared by.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/context/sequence_partition.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring_model.hpp"

namespace test {

namespace zero = parallel::zero;

constexpr index global_batch = 11;
constexpr index vocabulary = 13;
constexpr int steps = 3;
constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};

/// Everything a run produced, by name.
struct outcome {
  std::vector<ring> losses, squared_norms;
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<ring>> gradients;   // of the last step
  std::map<std::string, std::vector<ring>> parameters;  // after the last step
  /// Of each step, if measured.
  std::vector<std::vector<parallel::train::tensor_squares<ring>>> tensors = {};
  bool frozen_is_lean = true;  // frozen segments have values and nothing else
  bool ranks_agree = true;     // what several ranks hold, or are told, is the same
  std::size_t scratch = 0;     // bytes of operations' scratch that are planned for a GPU

  /// What a rank was told of a step: the same as every other rank.
  template <class Result>
  void add(std::size_t step, Result const& result) {
    if (step == losses.size()) {
      losses.push_back(result.sums.loss);
      squared_norms.push_back(result.squared_norm);
      tokens.push_back(result.sums.tokens);
      if (!result.tensors.empty()) tensors.push_back(result.tensors);
    } else if (losses[step] != result.sums.loss || squared_norms[step] != result.squared_norm ||
               tokens[step] != result.sums.tokens ||
               (!result.tensors.empty() && tensors[step] != result.tensors)) {
      ranks_agree = false;
    }
  }

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

struct ring_sizes {
  index width = 4;
  index vocabulary = test::vocabulary;
  index length = 5;  // of whole sequences
  index batch = global_batch;
  friend auto operator<=>(ring_sizes const&, ring_sizes const&) = default;
};

struct layout {
  int ranks = 1;  // with other data: shards of a ZeRO stage, or replicas
  zero::level level = zero::level::none;
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
  bool reshard = true;  // after the forward pass, at level parameters
  bool gather_before_use = false;
  bool one_queue = false;
  bool reduce_every_microbatch = true;  // from level gradients on
  int context = 1;                      // model.attention says by which method
  int tensor = 1;
  bool divide_rows = false;  // between regions of the tensor axis
  ring_sizes sizes = {};

  [[nodiscard]] parallel::training_layout shape() const {
    auto const axes = parallel::training_layout{}
                          .with_degree<parallel::axis::replicate>(replicas)
                          .with_degree<parallel::axis::pipeline>(pipeline)
                          .with_degree<parallel::axis::context>(context)
                          .with_degree<parallel::axis::tensor>(tensor);
    return level == zero::level::none
               ? axes.with_degree<parallel::axis::replicate>(ranks * replicas)
               : axes.with_degree<parallel::axis::shard>(ranks);
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

inline std::int32_t token(index step, index sequence, index at, index words) {
  parallel::philox const random(7, parallel::stream_id("tokens"), static_cast<std::uint32_t>(step));
  return static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(sequence * 97 + at)) %
                                   static_cast<std::uint64_t>(words));
}

/// Uneven loss tokens, but never two rows without a label one after another: what such rows alone
/// feed would change nothing when it is broken.
inline bool has_label(index sequence, index at) {
  return sequence % 4 == 0 || (at + sequence) % (6 - sequence % 4) != 0;
}

/// Leaves other numbers on every rank in all gradients: a step must not depend on what it finds.
inline void spoil_gradients(auto& stepper, int rank) {
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s)
      for (auto const& gradients : unit.memory.segments()[s].gradients) {
        auto const begin =
            unit.memory.gradients_sharded() ? unit.memory.segments()[s].owned.begin : 0;
        unit.memory.layout().segments()[s].for_each_piece(
            begin, begin + static_cast<index>(gradients.size()),
            [&](auto const&, index first, index last, index at) {
              auto const piece = gradients.span().subspan(static_cast<std::size_t>(at - begin),
                                                          static_cast<std::size_t>(last - first));
              parallel::write_from_host(stepper.device(), piece, [&](std::span<ring> here) {
                for (index i = at; i < at + last - first; ++i)
                  here[static_cast<std::size_t>(i - at)] = static_cast<ring>((rank + 3) * (i + 7));
              });
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

[[nodiscard]] inline index data_ranks(layout const& how) {
  return how.shape().size<parallel::axis::replicate, parallel::axis::shard>();
}
/// Of the rank that has most, before what the schedule adds.
[[nodiscard]] inline std::size_t most_microbatches(layout const& how) {
  return static_cast<std::size_t>(
      parallel::data::most_microbatches(how.sizes.batch, data_ranks(how), how.microbatch));
}

/// One rank's microbatches of a step, where the operations of a device read them.
template <class Device>
class step_data {
 public:
  /// Of `least` microbatches or more; the last ones of some ranks are empty.
  step_data(Device const& device, layout const& how, int rank, index step, std::size_t least) {
    auto const& of = how.sizes;
    context_parallel::sequence_partition const part(
        how.shape().coordinate<parallel::axis::context>(rank), how.context, of.length);
    auto const place = how.shape().position<parallel::axis::replicate, parallel::axis::shard>(rank);
    for (auto const& some : parallel::data::microbatches(
             parallel::data::share_of(of.batch, place, data_ranks(how)), how.microbatch)) {
      std::vector<std::int32_t> x, y;
      for (index sequence = some.begin; sequence < some.end; ++sequence)
        for (index at = 0; at < of.length; ++at) {
          x.push_back(token(step, sequence, at, of.vocabulary));
          y.push_back(has_label(sequence, at) ? token(step, sequence, at + 1, of.vocabulary)
                                              : -100);
        }
      auto const labels = part.pick(std::span<std::int32_t const>(y));
      index const rows = some.size() * part.length();
      batches_.push_back({{put(device, part.pick(std::span<std::int32_t const>(x))), {rows}},
                          {put(device, labels), {rows}},
                          some.size(),
                          part.length(),
                          std::ranges::count_if(labels, [](auto label) { return label >= 0; })});
      first_.push_back(some.begin);
    }
    batches_.resize(least);
    first_.resize(least);
  }

  [[nodiscard]] std::span<ring_microbatch const> batches() const { return batches_; }
  [[nodiscard]] std::span<index const> first_sequences() const { return first_; }

 private:
  [[nodiscard]] std::int32_t const* put(Device const& device, std::vector<std::int32_t> tokens) {
    if constexpr (!parallel::host_reaches<Device>) {
      auto const& there =
          on_device_.emplace_back(device.template allocate<std::int32_t>(tokens.size()));
      device.upload(there.span(), std::span<std::int32_t const>(tokens));
      return there.data();
    }
    return on_host_.emplace_back(std::move(tokens)).data();
  }

  std::vector<std::vector<std::int32_t>> on_host_;
  std::vector<parallel::buffer<std::int32_t>> on_device_;
  std::vector<ring_microbatch> batches_;
  std::vector<index> first_;
};

/// One rank of a layout: its communicators, model and stepper.
template <class Device = parallel::host::device, class Comm = parallel::any_communicator>
class ring_rank {
 public:
  using any = Comm;
  using model_type = basic_ring_model<Comm>;
  using exchange_stream = parallel::comm_stream<Device, any>;

  /// Collective over `world`, which it owns.
  ring_rank(any world, layout const& how, Device device = Device())
      : how_(how),
        device_(std::move(device)),
        compute_(device_.compute_options()),
        exchanges_(parallel::comm_options<any>(device_)),
        groups_(std::move(world), how.shape(), how.level),
        model_(how.model.blocks, how.sizes.width, how.sizes.vocabulary, connected()),
        stepper_(model_, device_, groups_, groups_of(how),
                 {.level = how.level,
                  .bucket_bytes = how.bucket_bytes,
                  .reshard_after_forward = how.reshard,
                  .reduce_every_microbatch = how.reduce_every_microbatch,
                  .gather_before_use = how.gather_before_use,
                  .one_queue = how.one_queue,
                  .pipeline = how.schedule}) {
    stepper_.initialise(42);
    stepper_.measure_tensors(how.measure);
  }

  [[nodiscard]] auto& stepper() { return stepper_; }
  [[nodiscard]] model_type const& model() const { return model_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] auto& compute() { return compute_; }
  [[nodiscard]] parallel::arena const& memory() const { return memory_; }
  [[nodiscard]] int rank() { return groups_.world().rank(); }
  [[nodiscard]] any& world() { return groups_.world(); }
  [[nodiscard]] exchange_stream& exchanges() { return exchanges_; }

  [[nodiscard]] step_data<Device> data(index step) {
    return {device_, how_, rank(), step, stepper_.least_microbatches(most_microbatches(how_))};
  }

  auto step(index which) {
    prepare(which);
    begin(which);
    return finish();
  }

  /// The three parts of a step: what is no part of it, its enqueueing, and its end.
  void prepare(index which) {
    data_.emplace(data(which));
    if (memory_.peak() == 0)
      memory_ = parallel::arena(
          device_.template allocate<std::byte>(stepper_.plan_activations(data_->batches())));
    spoil_gradients(stepper_, rank());
  }
  void begin(index which) {
    stepper_.begin_step(compute_, exchanges_, memory_, data_->batches(), data_->first_sequences(),
                        {.seed = 42, .step = static_cast<std::uint32_t>(which)}, 1.0);
  }
  auto finish() { return stepper_.finish_step(compute_, exchanges_); }

 private:
  [[nodiscard]] basic_ring_options<Comm> connected() {
    auto out = how_.model.template alone_with<Comm>();
    auto const options = parallel::comm_options<any>(device_);
    if (how_.context > 1)
      out.attention.ranks = {groups_.context, to_next_.emplace(options),
                             from_previous_.emplace(options)};
    if (how_.tensor > 1)
      out.tensor = {{groups_.tensor, across_.emplace(options)}, how_.divide_rows, false};
    return out;
  }

  layout const& how_;
  Device device_;
  typename Device::stream_type compute_;
  exchange_stream exchanges_;
  std::optional<exchange_stream> to_next_, from_previous_, across_;
  parallel::train::process_groups<any> groups_;
  model_type model_;
  parallel::train::stepper<model_type, Device, any, ring_momentum> stepper_;
  parallel::arena memory_;
  std::optional<step_data<Device>> data_;  // of the step
};

/// Adds what a rank holds at the end to `out`.
inline void collect(auto const& stepper, outcome& out) {
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& m = unit.memory.segments()[s];
      auto const& segment = unit.memory.layout().segments()[s];
      auto const add = [&](auto& tensors, zero::range range, auto elements) {
        parallel::read_on_host(stepper.device(), elements, [&](std::span<ring const> here) {
          add_elements(tensors, segment, range, here, out);
        });
      };
      if (segment.key.trainable)
        add(out.gradients, m.owned, unit.memory.owned_gradients(s));
      else if (!m.gradients.empty() || !m.states.empty() || m.master.size() > 0)
        out.frozen_is_lean = false;
      // every rank must hold the same values of everything
      if (unit.memory.parameters_sharded())
        add(out.parameters, m.owned, m.values.span());
      else
        add(out.parameters, zero::range{0, segment.size}, m.values.span());
    }
}

/// Runs the steps of one rank and adds what it owns to `out`.
template <class Device = parallel::host::device, class Comm>
void run_rank(Comm world, layout const& how, outcome& out, std::mutex& lock,
              Device device = Device()) {
  ring_rank<Device, Comm> one(std::move(world), how, std::move(device));
  for (int step = 0; step < how.num_steps; ++step) {
    auto const result = one.step(step);
    std::scoped_lock const guard(lock);
    out.add(static_cast<std::size_t>(step), result);
  }
  one.stepper().gather_values(one.compute());
  auto const planned = one.stepper().plan_passes(one.data(0).batches());
  std::scoped_lock const guard(lock);
  out.scratch += planned.scratch.total();
  collect(one.stepper(), out);
}

/// All ranks as threads; decorate(communicator of a rank) is what it uses.
template <class Decorate>
outcome run(layout const& how, Decorate const& decorate) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(how.shape().ranks(), [&](parallel::threads::communicator& comm) {
    run_rank(parallel::any_communicator(decorate(std::move(comm))), how, out, lock);
  });
  return out;
}
inline outcome run(layout const& how) {
  return run(how, [](parallel::threads::communicator comm) { return comm; });
}

/// All ranks on devices that `make` makes; launch(ranks, program) calls program(communicator) for
/// each.
template <class Make, class Launch>
outcome run_on(layout const& how, Make const& make, Launch const& launch) {
  outcome out;
  std::mutex lock;
  launch(how.shape().ranks(), [&](auto&& comm) {
    run_rank(parallel::basic_any_communicator(std::move(comm)), how, out, lock, make());
  });
  return out;
}
template <class Make>
outcome run_on(layout const& how, Make const& make) {
  return run_on(how, make,
                [](int ranks, auto const& program) { parallel::threads::run(ranks, program); });
}

}  // namespace test
