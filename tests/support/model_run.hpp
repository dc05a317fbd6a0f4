// Training steps and an evaluation of an MPT on any layout, in fp64 by default, and their results.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/device_sequences.hpp>
#include <mpt/model/model.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/stepper.hpp>

namespace test {

using context_method = parallel::context_parallel::method;
using parallel::index;

constexpr index model_sequences = 3;

/// Four blocks with ALiBi and dropout on packed texts.
inline mpt::model_config packed_alibi_model() {
  mpt::model_config m;
  m.d_model = 24;
  m.n_heads = 4;
  m.n_layers = 4;
  m.vocab_size = 18;
  m.max_seq_len = 8;
  m.expansion_ratio = 2;
  m.attn.alibi = true;
  m.attn.attn_uses_sequence_id = true;
  m.learned_pos_emb = false;
  m.resid_pdrop = 0.25;
  check_model(m, "");
  return m;
}

struct model_outcome {
  double loss = 0, squared_norm = 0, evaluated = 0;
  std::int64_t tokens = 0;
  std::size_t peak = 0;     // bytes of activations
  std::size_t scratch = 0;  // bytes of operations' scratch that are planned for a GPU, of all ranks
  double gradient_norm = 0;
  std::map<std::string, std::vector<double>> gradients, parameters;
};

struct model_layout {
  int context = 1;
  context_method method = context_method::ring;
  int tensor = 1;
  int replicate = 1;
  mpt::block_recomputation recompute = {};
  int pipeline = 1;
  parallel::train::pipeline_options schedule = {};
  parallel::zero::level level = parallel::zero::level::none;
  int shard = 1;
  index microbatch = 2;
  parallel::zero::optimizer_memory optimizer = parallel::zero::optimizer_memory::device;
  bool sequence_parallel = true;
  parallel::train::clipping clip = {};
  int steps = 1;
  bool reserve_scratch = true;  // before the evaluation; otherwise the steps reserve it
  /// Called on every rank when everything but the scratch is created, before a step is enqueued,
  /// and after it is enqueued.
  std::function<void()> on_created = [] {}, before_step = [] {}, after_begin = [] {};
};

/// Runs an evaluation and training steps of the whole batch, with elements T and ranks on devices
/// that `make` creates; launch(ranks, program) calls program(communicator) for each rank.
template <class T = double, class Make, class Launch>
[[nodiscard]] model_outcome run_model(mpt::model_config const& config, model_layout const& layout,
                                      Make const& make, Launch const& launch) {
  using device_type = std::invoke_result_t<Make>;
  namespace axis = parallel::axis;
  index const sequences = model_sequences;
  index const length = config.max_seq_len;
  model_outcome out;
  std::mutex lock;
  auto const shape = parallel::training_layout{}
                         .with_degree<axis::context>(layout.context)
                         .with_degree<axis::tensor>(layout.tensor)
                         .with_degree<axis::replicate>(layout.replicate)
                         .with_degree<axis::pipeline>(layout.pipeline)
                         .with_degree<axis::shard>(layout.shard);
  launch(shape.ranks(), [&](auto&& comm) {
    using any_communicator =
        parallel::basic_any_communicator<typename std::decay_t<decltype(comm)>::stream_type>;
    int const rank = comm.rank();
    device_type device = make();
    typename device_type::stream_type compute(device.compute_options());
    auto const options = parallel::comm_options<any_communicator>(device);
    parallel::comm_stream<device_type, any_communicator> reductions(options), to_next(options),
        from_previous(options), tensor_exchanges(options), return_exchanges(options);
    parallel::arena memory(device.template allocate<std::byte>(std::size_t{16} << 20));
    parallel::train::process_groups<any_communicator> ranks(any_communicator(std::move(comm)),
                                                            shape, layout.level);
    mpt::basic_model_groups<any_communicator> groups{.context = {.method = layout.method}};
    if (layout.context > 1) groups.context.group = {ranks.context, to_next, from_previous};
    if (layout.tensor > 1)
      groups.tensor = {{ranks.tensor, tensor_exchanges, return_exchanges},
                       layout.sequence_parallel};
    mpt::model<T, any_communicator> net(config, groups, layout.recompute);
    parallel::train::stepper stepper(net, device, ranks, parallel::decoupled_adamw{},
                                     {.level = layout.level,
                                      .bucket_bytes = 20000,
                                      .clip = layout.clip,
                                      .optimizer_memory = layout.optimizer,
                                      .pipeline = layout.schedule});
    stepper.initialise(42);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(sequences * length));
    parallel::philox const random(7, parallel::stream_id("tokens"));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random.bits(i) % 18U);
    using side = mpt::document_separator::side;
    mpt::device_sequences<device_type> own_sequences(device);
    mpt::sequences const all_sequences(ids, length, {side::ends_document, ids[2]});
    own_sequences.assign(all_sequences.divided(parallel::context_parallel::sequence_partition(
        ranks.context.rank(), layout.context, length)));
    std::vector<mpt::microbatch> batches;
    std::vector<index> first;
    auto const share =
        parallel::data::share_of(sequences,
                                 shape.coordinate<axis::replicate>(rank) * layout.shard +
                                     shape.coordinate<axis::shard>(rank),
                                 layout.replicate * layout.shard);
    for (auto const& range : parallel::data::microbatches(share, layout.microbatch)) {
      batches.push_back(own_sequences.view(range));
      first.push_back(range.begin);
    }
    auto const microbatch_count =
        stepper.least_microbatches(static_cast<std::size_t>(parallel::data::max_microbatches(
            sequences, layout.replicate * layout.shard, layout.microbatch)));
    batches.resize(microbatch_count);  // the last ones may be empty
    first.resize(microbatch_count);
    auto planned = stepper.plan_passes(std::span(std::as_const(batches)));
    planned.cover(
        stepper.plan_passes(std::span(std::as_const(batches)), parallel::pass::inference));
    layout.on_created();
    if (layout.reserve_scratch) stepper.reserve_scratch(compute, planned.scratch);
    parallel::train::statistics_sum<double> sums;
    stepper.add_evaluation(compute, memory, std::span(std::as_const(batches)), sums);
    auto const evaluated = stepper.over_ranks(reductions, sums);
    parallel::train::step_result<double> result;
    for (int step = 0; step < layout.steps; ++step) {
      layout.before_step();
      stepper.begin_step(
          compute, reductions, memory,
          {batches, first, {.seed = 42, .step = static_cast<std::uint32_t>(3 + step)}, 1.0});
      layout.after_begin();
      result = stepper.finish_step(compute, reductions);
    }
    std::scoped_lock const guard(lock);
    out.peak = std::max(out.peak, memory.peak());
    out.scratch += planned.scratch.total();
    out.evaluated = evaluated.loss;
    out.loss = result.sums.loss;
    out.tokens = result.sums.tokens;
    out.squared_norm = result.squared_norm;
    out.gradient_norm = result.gradient_norm;
    for (auto const& unit : stepper.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const collect = [&](auto& tensors, auto elements) {
          std::vector<double> owned;
          parallel::read_on_host(device, elements, [&](auto elements_on_host) {
            for (auto const& value : elements_on_host) owned.push_back(static_cast<double>(value));
          });
          unit.memory.layout().segments()[s].for_each_piece(
              m.owned.begin, m.owned.end,
              [&](auto const& p, index begin_element, index end_element, index memory_offset) {
                auto& tensor = tensors[p.name];
                index size = 1;
                for (index const extent : p.tensor_extents()) size *= extent;
                tensor.resize(static_cast<std::size_t>(size));
                p.for_each_run(
                    begin_element, end_element, [&](index begin, index count, index global) {
                      std::copy_n(
                          owned.begin() + (memory_offset - m.owned.begin + begin - begin_element),
                          count, tensor.begin() + global);
                    });
              });
        };
        collect(out.gradients, unit.memory.owned_gradients(s));
        collect(out.parameters, unit.memory.owned_values(s));
      }
  });
  return out;
}

/// Runs the model with ranks that are threads.
template <class T = double, class Make>
[[nodiscard]] model_outcome run_model(mpt::model_config const& config, model_layout const& layout,
                                      Make const& make) {
  return run_model<T>(config, layout, make, [](int ranks, auto const& program) {
    parallel::threads::run(ranks, program);
  });
}

/// Runs the model with threads on the host.
template <class T = double>
[[nodiscard]] model_outcome run_model(mpt::model_config const& config, model_layout const& layout) {
  return run_model<T>(config, layout, [] { return parallel::host::device(); });
}

}  // namespace test
