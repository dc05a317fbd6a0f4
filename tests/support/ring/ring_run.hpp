// A run of the ring model on a layout, with all results for comparing layouts.
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
#include <parallel/context_parallel/sequence_partition.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/session.hpp>

#include "support/ring/ring_model.hpp"

namespace test {

namespace zero = parallel::zero;

constexpr index global_batch = 11;
constexpr index vocabulary = 13;
constexpr int steps = 3;
constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};

/// All results of a run, by name.
struct outcome {
  std::vector<ring> losses, squared_norms;
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<ring>> gradients;   // of the last step
  std::map<std::string, std::vector<ring>> parameters;  // after the last step
  /// The measurements of each step, if any.
  std::vector<std::vector<parallel::train::tensor_squares<ring>>> tensors = {};
  bool frozen_is_lean = true;  // frozen segments have values and nothing else
  bool ranks_agree = true;     // values that several ranks hold or receive are equal
  std::size_t scratch = 0;     // bytes of operations' scratch that are planned for a GPU

  /// Adds the result of a step on one rank, which must equal those of the other ranks.
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

  // For each tensor above: which elements some rank has given.
  std::map<std::vector<ring> const*, std::vector<bool>> known_elements;

  /// Whether every element of every tensor was given by some rank.
  [[nodiscard]] bool complete() const {
    return std::ranges::all_of(known_elements, [](auto const& entry) {
      return std::ranges::all_of(entry.second, std::identity());
    });
  }

  friend bool operator==(outcome const& a, outcome const& b) {
    auto const fields = [](outcome const& o) {
      return std::tie(o.losses, o.squared_norms, o.tokens, o.gradients, o.parameters, o.tensors,
                      o.frozen_is_lean, o.ranks_agree);
    };
    return fields(a) == fields(b) && a.complete() && b.complete();
  }
};

struct ring_sizes {
  index width = 4;
  index vocabulary = test::vocabulary;
  index length = 5;  // positions of a whole sequence
  index batch = global_batch;
  friend auto operator<=>(ring_sizes const&, ring_sizes const&) = default;
};

struct layout {
  int ranks = 1;  // of the data axis: shards of a ZeRO stage, or replicas
  zero::level level = zero::level::none;
  index microbatch = 1;
  std::size_t bucket_bytes = 1;
  /// A parameter is frozen, or in group 1, when its name contains one of these.
  std::vector<std::string> frozen = {};
  std::vector<std::string> second_group = {};
  int num_steps = steps;
  ring_options model = {};
  bool measure = false;
  int replicas = 1;  // number of copies of all shards
  int pipeline = 1;
  parallel::train::pipeline_options schedule = {};
  bool reshard = true;  // after the forward pass, at level parameters
  bool gather_before_use = false;
  bool one_queue = false;
  bool reduce_every_microbatch = true;  // from level gradients on
  int context = 1;                      // model.attention says by which method
  int tensor = 1;
  int experts = 1;           // ranks with different data that divide experts
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

[[nodiscard]] inline parallel::train::optimizer_groups<ring_momentum> groups_of(
    layout const& config) {
  auto const contains_any = [](std::vector<std::string> const& parts, std::string const& name) {
    return std::ranges::any_of(
        parts, [&](auto const& part) { return name.find(part) != std::string::npos; });
  };
  return {{ring_momentum{}, ring_momentum{.rate = 11}}, [=](std::string const& name) {
            return parallel::segment_key{.trainable = !contains_any(config.frozen, name),
                                         .group = contains_any(config.second_group, name) ? 1 : 0};
          }};
}

inline std::int32_t token(index step, index sequence, index position, index words) {
  parallel::philox const random(7, parallel::stream_id("tokens"), static_cast<std::uint32_t>(step));
  return static_cast<std::int32_t>(
      random.bits(static_cast<std::uint64_t>(sequence * 97 + position)) %
      static_cast<std::uint64_t>(words));
}

/// Whether a row has a label. Numbers of labels are uneven, but no two adjacent rows lack one: an
/// error in data that feeds unlabelled rows alone would have no effect.
inline bool has_label(index sequence, index position) {
  return sequence % 4 == 0 || (position + sequence) % (6 - sequence % 4) != 0;
}

/// Fills all gradients with numbers that differ by rank: a step must not depend on old contents.
inline void spoil_gradients(auto& stepper, int rank) {
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s)
      for (auto const& gradients : unit.memory.segments()[s].gradients) {
        auto const begin =
            unit.memory.gradients_sharded() ? unit.memory.segments()[s].owned.begin : 0;
        unit.memory.layout().segments()[s].for_each_piece(
            begin, begin + static_cast<index>(gradients.size()),
            [&](auto const&, index first, index last, index memory_offset) {
              auto const piece =
                  gradients.span().subspan(static_cast<std::size_t>(memory_offset - begin),
                                           static_cast<std::size_t>(last - first));
              parallel::write_from_host(stepper.device(), piece, [&](std::span<ring> elements) {
                for (index i = memory_offset; i < memory_offset + last - first; ++i)
                  elements[static_cast<std::size_t>(i - memory_offset)] =
                      static_cast<ring>((rank + 3) * (i + 7));
              });
            });
      }
}

/// Adds the elements of a segment's range, which begins at `values`, to their tensors. Elements
/// that another rank has given before must be equal.
inline void add_elements(std::map<std::string, std::vector<ring>>& tensors, auto const& segment,
                         zero::range range, std::span<ring const> values, outcome& out) {
  segment.for_each_piece(
      range.begin, range.end, [&](auto const& p, index first, index last, index memory_offset) {
        index size = 1;
        for (index const extent : p.tensor_extents()) size *= extent;
        auto& tensor = tensors[p.name];
        auto& is_known = out.known_elements[&tensor];
        tensor.resize(static_cast<std::size_t>(size));
        is_known.resize(static_cast<std::size_t>(size));
        p.for_each_run(first, last, [&](index run_begin, index count, index global) {
          for (index i = 0; i < count; ++i) {
            auto const element = static_cast<std::size_t>(global + i);
            ring const value = values[static_cast<std::size_t>(memory_offset - range.begin +
                                                               run_begin - first + i)];
            if (is_known[element] && tensor[element] != value) out.ranks_agree = false;
            is_known[element] = true;
            tensor[element] = value;
          }
        });
      });
}

[[nodiscard]] inline index data_ranks(layout const& config) {
  return config.shape().size<parallel::axis::replicate, parallel::axis::shard>();
}
/// The largest number of microbatches of a rank, before the schedule adds empty ones.
[[nodiscard]] inline std::size_t max_microbatches(layout const& config) {
  return static_cast<std::size_t>(
      parallel::data::max_microbatches(config.sizes.batch, data_ranks(config), config.microbatch));
}

/// One rank's microbatches of a step, in memory that a device's operations can read.
template <class Device>
class step_data {
 public:
  /// Has `least` microbatches; the last ones of some ranks are empty.
  step_data(Device const& device, layout const& config, int rank, index step,
            std::size_t min_microbatches) {
    auto const& sizes = config.sizes;
    context_parallel::sequence_partition const partition(
        config.shape().coordinate<parallel::axis::context>(rank), config.context, sizes.length);
    auto const data_rank =
        config.shape().position<parallel::axis::replicate, parallel::axis::shard>(rank);
    for (auto const& range : parallel::data::microbatches(
             parallel::data::share_of(sizes.batch, data_rank, data_ranks(config)),
             config.microbatch)) {
      std::vector<std::int32_t> x, y;
      for (index sequence = range.begin; sequence < range.end; ++sequence)
        for (index position = 0; position < sizes.length; ++position) {
          x.push_back(token(step, sequence, position, sizes.vocabulary));
          y.push_back(has_label(sequence, position)
                          ? token(step, sequence, position + 1, sizes.vocabulary)
                          : -100);
        }
      auto const labels = partition.pick(std::span<std::int32_t const>(y));
      index const rows = range.size() * partition.length();
      batches_.push_back(
          {{place_tokens(device, partition.pick(std::span<std::int32_t const>(x))), {rows}},
           {place_tokens(device, labels), {rows}},
           range.size(),
           partition.length(),
           std::ranges::count_if(labels, [](auto label) { return label >= 0; })});
      first_.push_back(range.begin);
    }
    batches_.resize(min_microbatches);
    first_.resize(min_microbatches);
  }

  [[nodiscard]] std::span<ring_microbatch const> batches() const { return batches_; }
  [[nodiscard]] std::span<index const> first_sequences() const { return first_; }

 private:
  [[nodiscard]] std::int32_t const* place_tokens(Device const& device,
                                                 std::vector<std::int32_t> tokens) {
    if constexpr (!parallel::host_reaches<Device>) {
      auto const& buffer =
          on_device_.emplace_back(device.template allocate<std::int32_t>(tokens.size()));
      device.upload(buffer.span(), std::span<std::int32_t const>(tokens));
      return buffer.data();
    }
    return on_host_.emplace_back(std::move(tokens)).data();
  }

  std::vector<std::vector<std::int32_t>> on_host_;
  std::vector<parallel::buffer<std::int32_t>> on_device_;
  std::vector<ring_microbatch> batches_;
  std::vector<index> first_;
};

/// One rank of a layout: its communicators, model and session.
template <class Device = parallel::host::device, class Comm = parallel::any_communicator>
class ring_rank {
 public:
  using any = Comm;
  using model_type = basic_ring_model<Comm>;
  using exchange_stream = parallel::comm_stream<Device, any>;

  /// Collective over `world`, which it owns.
  ring_rank(any world, layout const& config, Device device = Device())
      : how_(config),
        device_(std::move(device)),
        groups_(std::move(world), config.shape(), config.level, config.experts),
        model_(config.model.blocks, config.sizes.width, config.sizes.vocabulary,
               connected_options()),
        session_(model_, device_, groups_, groups_of(config),
                 {.level = config.level,
                  .bucket_bytes = config.bucket_bytes,
                  .reshard_after_forward = config.reshard,
                  .reduce_every_microbatch = config.reduce_every_microbatch,
                  .gather_before_use = config.gather_before_use,
                  .one_queue = config.one_queue,
                  .pipeline = config.schedule}) {
    session_.initialise(42);
    stepper().measure_tensors(config.measure);
  }

  [[nodiscard]] auto& session() { return session_; }
  [[nodiscard]] auto& stepper() { return session_.stepper(); }
  [[nodiscard]] model_type const& model() const { return model_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] auto& compute() { return session_.compute(); }
  [[nodiscard]] parallel::arena const& memory() { return session_.memory(); }
  [[nodiscard]] int rank() { return groups_.world().rank(); }
  [[nodiscard]] any& world() { return groups_.world(); }
  [[nodiscard]] exchange_stream& exchanges() { return session_.exchanges(); }

  [[nodiscard]] step_data<Device> data(index step) {
    return {device_, how_, rank(), step, session_.least_microbatches(max_microbatches(how_))};
  }

  auto step(index step_index) {
    prepare(step_index);
    begin(step_index);
    return finish();
  }

  /// A step in three parts: preparation outside the step, enqueueing, and the end.
  void prepare(index step_index) {
    data_.emplace(data(step_index));
    if (memory().peak() == 0) session_.reserve(stepper().plan_activations(data_->batches()));
    spoil_gradients(stepper(), rank());
  }
  void begin(index step_index) {
    stepper().begin_step(compute(), exchanges(), session_.memory(),
                         {data_->batches(),
                          data_->first_sequences(),
                          {.seed = 42, .step = static_cast<std::uint32_t>(step_index)},
                          1.0});
  }
  auto finish() { return stepper().finish_step(compute(), exchanges()); }

 private:
  [[nodiscard]] basic_ring_options<Comm> connected_options() {
    auto out = how_.model.template for_single_rank<Comm>();
    auto const options = parallel::comm_options<any>(device_);
    if (how_.context > 1)
      out.attention.ranks = {groups_.context, to_next_.emplace(options),
                             from_previous_.emplace(options)};
    if (how_.experts > 1) out.expert_ranks = {*groups_.experts(), to_experts_.emplace(options)};
    if (how_.tensor > 1)
      out.tensor = {{groups_.tensor, across_.emplace(options)}, how_.divide_rows, false};
    return out;
  }

  layout const& how_;
  Device device_;
  std::optional<exchange_stream> to_next_, from_previous_, across_, to_experts_;
  parallel::train::process_groups<any> groups_;
  model_type model_;
  parallel::train::session<model_type, Device, any, ring_momentum> session_;
  std::optional<step_data<Device>> data_;  // of the current step
};

/// Adds a rank's final gradients and parameters to `out`.
inline void collect(auto const& stepper, outcome& out) {
  for (auto const& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& m = unit.memory.segments()[s];
      auto const& segment = unit.memory.layout().segments()[s];
      auto const add = [&](auto& tensors, zero::range range, auto elements) {
        parallel::read_on_host(stepper.device(), elements,
                               [&](std::span<ring const> host_elements) {
                                 add_elements(tensors, segment, range, host_elements, out);
                               });
      };
      if (segment.key.trainable)
        add(out.gradients, m.owned, unit.memory.owned_gradients(s));
      else if (!m.gradients.empty() || !m.states.empty() || m.master.size() > 0)
        out.frozen_is_lean = false;
      // every rank must hold the same values of all parameters
      if (unit.memory.parameters_sharded())
        add(out.parameters, m.owned, m.values.span());
      else
        add(out.parameters, zero::range{0, segment.size}, m.values.span());
    }
}

/// Runs the steps of one rank and adds its results to `out`.
template <class Device = parallel::host::device, class Comm>
void run_rank(Comm world, layout const& config, outcome& out, std::mutex& lock,
              Device device = Device()) {
  ring_rank<Device, Comm> rank(std::move(world), config, std::move(device));
  for (int step = 0; step < config.num_steps; ++step) {
    auto const result = rank.step(step);
    std::scoped_lock const guard(lock);
    out.add(static_cast<std::size_t>(step), result);
  }
  rank.stepper().gather_values(rank.compute());
  auto const planned = rank.stepper().plan_passes(rank.data(0).batches());
  std::scoped_lock const guard(lock);
  out.scratch += planned.scratch.total();
  collect(rank.stepper(), out);
}

/// Runs all ranks as threads; each uses decorate(its communicator).
template <class Decorate>
outcome run(layout const& config, Decorate const& decorate) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(config.shape().ranks(), [&](parallel::threads::communicator& comm) {
    run_rank(parallel::any_communicator(decorate(std::move(comm))), config, out, lock);
  });
  return out;
}
inline outcome run(layout const& config) {
  return run(config, [](parallel::threads::communicator comm) { return comm; });
}

/// Runs all ranks on devices that `make` creates; launch(ranks, program) calls
/// program(communicator) for each rank.
template <class Make, class Launch>
outcome run_on(layout const& config, Make const& make, Launch const& launch) {
  outcome out;
  std::mutex lock;
  launch(config.shape().ranks(), [&](auto&& comm) {
    run_rank(parallel::basic_any_communicator(std::move(comm)), config, out, lock, make());
  });
  return out;
}
template <class Make>
outcome run_on(layout const& config, Make const& make) {
  return run_on(config, make,
                [](int ranks, auto const& program) { parallel::threads::run(ranks, program); });
}

}  // namespace test
