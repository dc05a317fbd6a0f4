// The contracts of mixed layouts: the bytes sent along every axis in a step follow the formulas,
// along tensor and context also the counts of the meta device, and memory equals the plan.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/recorded.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/plan.hpp>

#include "support/ring/ring_matrix.hpp"

namespace stepper_contract_test {

using parallel::index;
using test::layout;
using test::ring;
namespace axis = parallel::axis;
namespace pipeline = parallel::pipeline;
namespace train = parallel::train;
namespace zero = parallel::zero;

using bytes_by_axis = std::map<std::string, std::uint64_t>;

struct contract {
  bytes_by_axis counted, formula, planned;  // over all ranks
  std::size_t units = 0, activations = 0;   // of rank 0
  bool memory_is_planned = true;            // on every rank, to the byte
};

/// The key of the bytes that sum gradients of parameters which tensor ranks share. No pass sends
/// them.
std::string const copied = "tensor, of copies";

std::uint64_t bytes_of(index elements) {
  return static_cast<std::uint64_t>(elements) * sizeof(ring);
}

/// The model of a rank without communicators.
test::ring_model planned_model(layout const& run_layout, int rank) {
  auto options = run_layout.model;
  auto const shape = run_layout.shape();
  using context_group = decltype(options.attention.ranks);
  using tensor_group = decltype(options.tensor.group);
  options.attention.ranks =
      context_group::planned(shape.coordinate<axis::context>(rank), run_layout.context);
  options.tensor = {tensor_group::planned(shape.coordinate<axis::tensor>(rank), run_layout.tensor),
                    run_layout.divide_rows, false};  // as ring_run.hpp
  return {run_layout.model.blocks, run_layout.sizes.width, run_layout.sizes.vocabulary, options};
}

/// The bytes that one rank sends in a step, by the formulas of the references. The bytes of each
/// axis are multiplied by its degree, since the share of a rank may not be a whole number but the
/// sum over ranks is.
class formulas {
 public:
  formulas(layout const& run_layout, int rank)
      : layout_(run_layout), shape_(run_layout.shape()), rank_(rank) {}

  template <class Units>
  [[nodiscard]] bytes_by_axis sent_in_step(Units const& units,
                                           std::span<test::ring_microbatch const> batches) {
    // The norm, the loss, two counts and the request to stop.
    out_[""] += 2 * bytes_of(5) * (degree(shape_.ranks()) - 1);
    auto const count = static_cast<int>(batches.size());
    for (auto const& entry : units)
      for (std::size_t s = 0; s < entry.memory.segments().size(); ++s)
        add_segment(entry, entry.memory.layout().segments()[s], static_cast<std::uint64_t>(count));
    auto const order = pipeline::make_schedule(layout_.schedule.schedule, layout_.pipeline, count,
                                               layout_.schedule.stages_per_rank);
    int const own_stage = shape_.coordinate<axis::pipeline>(rank_);
    train::stages_of_rank const stages(layout_.schedule, own_stage, layout_.pipeline,
                                       static_cast<std::size_t>(layout_.model.blocks));
    for (auto const& batch : batches) {
      if (batch.sequences == 0) continue;
      auto const rows = batch.sequences * batch.length;
      for (int chunk = 0; chunk < order.stages_per_rank; ++chunk) {
        int const stage = order.stage_of(own_stage, chunk);
        auto const& range = stages.ranges()[static_cast<std::size_t>(chunk)];
        for (int const other : {stage - 1, stage + 1})
          if (0 <= other && other < order.stages() && order.rank_of(other) != own_stage)
            out_["pipeline"] += degree(layout_.pipeline) * bytes_of(rows * layout_.sizes.width) /
                                (layout_.divide_rows ? degree(layout_.tensor) : 1);
        add_passes(range, rows);
      }
    }
    return out_;
  }

  /// Divides sums over all ranks by the degrees again.
  [[nodiscard]] static bytes_by_axis divided(layout const& run_layout, bytes_by_axis sums) {
    auto const shape = run_layout.shape();
    std::map<std::string, int> const degrees{
        {"", shape.ranks()},
        {"pipeline", run_layout.pipeline},
        {"context", run_layout.context},
        {"shard", shape.degree<axis::shard>()},
        {"shard x context", shape.size<axis::shard, axis::context>()},
        {"replicate", run_layout.replicas},
        {"tensor", run_layout.tensor},
        {copied, run_layout.tensor},
        {"replicate x context", shape.size<axis::replicate, axis::context>()}};
    for (auto& [name, bytes] : sums) bytes /= degree(degrees.at(name));
    std::erase_if(sums, [](auto const& entry) { return entry.second == 0; });
    return sums;
  }

 private:
  static std::uint64_t degree(int ranks) { return static_cast<std::uint64_t>(ranks); }

  template <class Entry, class Segment>
  void add_segment(Entry const& entry, Segment const& segment, std::uint64_t microbatches) {
    auto const position = train::place_in(shape_, layout_.level);
    auto const n = static_cast<std::uint64_t>(position.shards);
    auto const r = static_cast<std::uint64_t>(position.replicas);
    bool const zero_is_on = layout_.level != zero::level::none;
    auto& along_shards = out_[layout_.context > 1 ? "shard x context" : "shard"];
    auto const whole = bytes_of(segment.size);
    auto const owned = whole / n;
    auto const uses = static_cast<std::uint64_t>(
        std::ranges::count_if(entry.parts, [](auto p) { return p >= train::embed; }));
    bool const stays = layout_.level == zero::level::parameters && !layout_.reshard;
    std::uint64_t gathers = segment.key.trainable || stays ? 1 : 0;
    if (layout_.level == zero::level::none) gathers = 0;
    if (layout_.level == zero::level::parameters && !stays) {
      gathers =
          0;  // two passes read the values of a block, one pass those of the entry and the exit
      for (auto const p : entry.parts)
        gathers += microbatches * (p == train::embed || p == layout_.model.blocks ? 1 : 2);
    }
    along_shards += gathers * whole * (n - 1);
    if (!segment.key.trainable) return;
    bool const every_microbatch =
        layout_.level >= zero::level::gradients && layout_.reduce_every_microbatch;
    along_shards += whole * (n - 1) * (every_microbatch ? uses * microbatches : 1);
    out_[zero_is_on ? "replicate" : "replicate x context"] += 2 * owned * (r - 1);
    auto const& copies = segment.key.replication;
    if (copies.partial)
      out_[copied] +=
          2 * owned * degree(copies.ranks - 1) * degree(layout_.tensor) / degree(copies.ranks);
    bool const tied = layout_.model.tied && entry.parts.size() == 1 &&
                      segment.parameters[0].parameter->name == "wte";
    if (tied)
      out_["pipeline"] +=
          owned * degree(layout_.pipeline);  // an all-reduce over two ranks sends 2 (2-1) / 2 of it
  }

  void add_passes(train::stage_range const& range, index rows) {
    auto const t = degree(layout_.tensor);
    auto const c = degree(layout_.context);
    auto const blocks = static_cast<std::uint64_t>(range.end - range.begin);
    auto const recomputed = static_cast<std::uint64_t>(  // forward passes that run again
        std::max<index>(std::min(range.end, layout_.model.recompute) - range.begin, 0));
    // Each block has two regions, which send 2 (t-1)/t in either direction; each end of the model
    // has half a region.
    auto const regions = 8 * blocks + 4 * recomputed + (range.entry ? 2 : 0) + (range.exit ? 2 : 0);
    out_["tensor"] += regions * (t - 1) * bytes_of(rows * layout_.sizes.width);
    if (c == 1) return;
    auto const& attention = layout_.model.attention;
    index const q = attention.heads / layout_.tensor * layout_.model.head_dim;
    index const k =
        attention.key_heads == 0
            ? 0
            : std::max<index>(attention.key_heads / layout_.tensor, 1) * layout_.model.head_dim;
    if (attention.method == test::context_parallel::method::ring) {
      auto const keys = bytes_of(rows * (k == 0 ? q : k));
      // The keys travel in both passes; their gradients travel all the way back to their owners.
      out_["context"] += c * keys * ((blocks + recomputed) * (c - 1) + blocks * (c - 1 + c));
    } else {
      // Both passes send packed rows and return the result.
      out_["context"] += (2 * blocks + recomputed) * (c - 1) * bytes_of(rows * (q + k + q));
    }
  }

  layout const& layout_;
  parallel::training_layout shape_;
  int rank_;
  bytes_by_axis out_;
};

contract measure(layout const& run_layout) {
  contract out;
  std::mutex lock;
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    test::ring_rank trainer(
        parallel::any_communicator(parallel::recorded(std::move(comm), recorder)), run_layout);
    int const rank = trainer.rank();
    auto const shape = run_layout.shape();
    auto const units = trainer.device().bytes();
    auto const data = trainer.data(0);
    static_cast<void>(trainer.step(0));
    trainer.stepper().gather_values(trainer.compute());

    auto planned = planned_model(run_layout, rank);
    train::stages_of_rank stages(run_layout.schedule, shape.coordinate<axis::pipeline>(rank),
                                 run_layout.pipeline, planned.num_blocks());
    auto const activations = train::plan_activations(planned, stages, data.batches().size(),
                                                     data.batches(), parallel::pass::training);
    parallel::meta::stream meta;
    for (auto const& batch : data.batches())
      if (batch.sequences > 0)
        for (auto const& range : stages.ranges())
          static_cast<void>(train::bytes_of_stage(planned, range, train::backward_halves::together,
                                                  batch, parallel::pass::training, meta));
    auto const plan = train::plan_units(
        planned, test::groups_of(run_layout), stages, train::place_in(shape, run_layout.level),
        {.level = run_layout.level,
         .reshard_after_forward = run_layout.reshard,
         .reduce_every_microbatch = run_layout.reduce_every_microbatch,
         .gather_before_use = run_layout.gather_before_use});
    auto const formula =
        formulas(run_layout, rank).sent_in_step(trainer.stepper().units(), data.batches());

    std::scoped_lock const guard(lock);
    for (auto const& [traffic, total] : recorder->totals())
      if (total.sent > 0) out.counted[traffic.first] += total.sent;
    for (auto const& [name, bytes] : formula) out.formula[name] += bytes;
    for (auto const& [name, bytes] : meta.exchanges()) out.planned[std::string(name)] += bytes;
    if (units != plan.total() || trainer.memory().peak() != activations)
      out.memory_is_planned = false;
    if (rank == 0) {
      out.units = units;
      out.activations = trainer.memory().peak();
    }
  });
  out.formula = formulas::divided(run_layout, out.formula);
  auto const of_copies = out.formula.extract(copied);
  if (!of_copies.empty()) {
    out.formula["tensor"] += of_copies.mapped();
    out.planned["tensor"] += of_copies.mapped();
  }
  return out;
}

TEST_CASE("stepper: bytes sent and memory of 20 mixed layouts follow the formulas and the plan") {
  std::vector<layout> layouts;
  for (auto& run_layout : test::all_layouts(16, 1)) {
    run_layout.measure = false;
    run_layout.num_steps = 1;
    if (run_layout.shape().ranks() > 1 && refusal(run_layout).empty())
      layouts.push_back(run_layout);
  }
  std::string table =
      "bytes sent by all ranks in a step: counted = formula (= those of the meta device's passes "
      "and "
      "of parameters that tensor ranks share); bytes of rank 0, as planned: units, activations\n";
  for (auto const& run_layout : spread(layouts, 20)) {
    auto const description = text(run_layout);
    CAPTURE(description);
    auto const found = measure(run_layout);
    CHECK(found.counted == found.formula);
    CHECK(found.memory_is_planned);
    table += description + "\n   ";
    auto const bytes = [](bytes_by_axis const& bytes_of_axes, std::string const& name) {
      return bytes_of_axes.contains(name) ? bytes_of_axes.at(name) : 0;
    };
    for (auto const& [name, counted] : found.counted) {
      table += parallel::concat(' ', name.empty() ? "world" : name, ' ', counted, " = ",
                                bytes(found.formula, name));
      if (found.planned.contains(name))
        table += parallel::concat(" (", bytes(found.planned, name), ')');
      table += ';';
    }
    for (auto const& [name, planned] : found.planned) CHECK(planned == bytes(found.counted, name));
    table += parallel::concat(" units ", found.units, ", activations ", found.activations, '\n');
  }
  MESSAGE(table);
}

}  // namespace stepper_contract_test
