// The canonical order of reductions: MPT's parameters after some steps have the same bits for every
// number of data ranks, ZeRO stage, accumulation and pipeline schedule. With sums in the order of
// ranks the bits differ.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/model/model.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>

namespace canonical_test {

namespace zero = parallel::zero;
using parallel::bf16;
using parallel::index;

constexpr index length = 6;
constexpr std::uint32_t vocabulary = 18;

struct layout {
  int shards = 1;
  int replicas = 1;
  zero::level level = zero::level::none;
  int pipeline = 1;
  parallel::train::pipeline_options schedule = {};
  zero::reduction_order order = zero::reduction_order::canonical_tree;
  zero::reduce_dtype dtype = zero::reduce_dtype::full;
  bool has_experts = false;
  int expert_ranks = 1;  // data ranks that divide the experts
  index sequences = 11;
};

mpt::model_config small(bool has_experts = false) {
  mpt::model_config m;
  m.d_model = 12;
  m.n_heads = 3;
  m.n_layers = 4;
  m.vocab_size = vocabulary;
  m.max_seq_len = length;
  m.expansion_ratio = 2;
  m.resid_pdrop = 0.1;
  if (has_experts) {
    m.ffn_type = mpt::ffn_kind::mptglu;
    m.experts = {.count = 8, .top_k = 2, .weight_norm = 1, .loss_weight = 0.1};
  }
  m.branch_norms = mpt::norm_position::both;
  m.residual_scale = 0.5;
  m.embedding_scale = 3;
  check_model(m, "");
  return m;
}

index volume_of(std::vector<index> const& extents) {
  return std::accumulate(extents.begin(), extents.end(), index{1}, std::multiplies{});
}

using bytes = std::map<std::string, std::vector<std::uint8_t>>;

/// The parameters after three steps of AdamW with clipping by norm, and the losses of these steps.
template <class T>
bytes train(layout const& layout_options) {
  bytes out;
  std::mutex lock;
  auto const shape = parallel::training_layout{}
                         .with_degree<parallel::axis::pipeline>(layout_options.pipeline)
                         .with_degree<parallel::axis::replicate>(layout_options.replicas)
                         .with_degree<parallel::axis::shard>(layout_options.shards);
  parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::arena memory(device.allocate<std::byte>(std::size_t{4} << 20));
    parallel::host::stream compute, exchanges, expert_exchanges;
    parallel::train::process_groups groups(parallel::any_communicator(comm.split(0)), shape,
                                           layout_options.level, layout_options.expert_ranks);
    mpt::model_groups model_groups;
    if (layout_options.expert_ranks > 1)
      model_groups.experts = {*groups.experts(), expert_exchanges};
    mpt::model<T> net(small(layout_options.has_experts), model_groups);
    parallel::train::stepper stepper(net, device, groups, parallel::decoupled_adamw{},
                                     {.level = layout_options.level,
                                      .bucket_bytes = 2000,
                                      .clip = {parallel::train::clipping_kind::norm, 0.05},
                                      .order = layout_options.order,
                                      .reduce_dtype = layout_options.dtype,
                                      .pipeline = layout_options.schedule});
    stepper.initialise(42);
    auto const own_position = groups.place();
    index const rank = own_position.replica * own_position.shards + own_position.shard;
    auto const own_share =
        layout_options.order == zero::reduction_order::by_rank
            ? parallel::data::share_of(layout_options.sequences, rank, own_position.data_ranks())
            : parallel::data::aligned_share_of(layout_options.sequences, 1, rank,
                                               own_position.data_ranks());
    std::size_t padded_count = 0;
    for (index r = 0; r < own_position.data_ranks(); ++r)
      padded_count = std::max(
          padded_count,
          static_cast<std::size_t>(parallel::data::aligned_share_of(layout_options.sequences, 1, r,
                                                                    own_position.data_ranks())
                                       .size()));
    std::vector<double> losses;
    for (std::uint32_t step = 0; step < 3; ++step) {
      parallel::philox const random(7, parallel::stream_id("tokens"), step);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(layout_options.sequences * length));
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int32_t>(random.bits(i) % vocabulary);
      std::vector<mpt::microbatch> batches;
      std::vector<index> first;
      for (index s = own_share.begin; s < own_share.end; ++s) {
        parallel::vector_view<std::int32_t const> const view(ids.data() + s * length, {length});
        batches.push_back(
            {.ids = view, .labels = view, .sequences = 1, .length = length, .loss_tokens = length});
        first.push_back(s);
      }
      batches.resize(stepper.least_microbatches(padded_count));
      first.resize(batches.size());
      auto const result = stepper.step(compute, exchanges, memory,
                                       {batches, first, {.seed = 42, .step = step}, 1.0});
      losses.push_back(result.sums.loss);
    }
    std::scoped_lock const guard(lock);
    auto& loss_bytes = out["loss"];  // the same on every rank
    loss_bytes.resize(losses.size() * sizeof(double));
    std::memcpy(loss_bytes.data(), losses.data(), loss_bytes.size());
    for (auto const& unit : stepper.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        unit.memory.layout().segments()[s].for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index from, index to, index offset) {
              auto& tensor = out[p.name];
              tensor.resize(static_cast<std::size_t>(volume_of(p.tensor_extents())) *
                            sizeof(float));
              p.for_each_run(from, to, [&](index position, index count, index global) {
                std::memcpy(tensor.data() + static_cast<std::size_t>(global) * sizeof(float),
                            m.master.data() + (offset - m.owned.begin) + (position - from),
                            static_cast<std::size_t>(count) * sizeof(float));
              });
            });
      }
  });
  return out;
}

/// Checks that all data, ZeRO and pipeline layouts give the bits of one rank.
template <class T>
void check_layouts(bool has_experts) {
  bytes const expected = train<T>({.has_experts = has_experts});
  REQUIRE(expected.size() > 20);
  int layouts = 0;
  auto const check = [&](layout layout_options) {
    CAPTURE(layout_options.shards);
    CAPTURE(layout_options.replicas);
    CAPTURE(static_cast<int>(layout_options.level));
    CAPTURE(layout_options.pipeline);
    CAPTURE(layout_options.schedule.schedule);
    layout_options.has_experts = has_experts;
    CHECK(train<T>(layout_options) == expected);
    ++layouts;
  };
  for (int const replicas : {2, 3, 5, 8, 13}) check({.replicas = replicas});
  for (auto const level :
       {zero::level::optimizer, zero::level::gradients, zero::level::parameters}) {
    for (int const shards : {2, 3, 4}) check({.shards = shards, .level = level});
    check({.shards = 2, .replicas = 3, .level = level});
  }
  for (auto const& [ranks, name] : std::vector<std::pair<int, std::string>>{
           {2, "1f1b"}, {4, "gpipe"}, {2, "zb-h1"}, {2, "zb-v"}, {2, "interleaved"}})
    for (auto const level : {zero::level::none, zero::level::parameters})
      check({.shards = level == zero::level::none ? 1 : 2,
             .level = level,
             .pipeline = ranks,
             .schedule = {.schedule = name, .stages_per_rank = name == "interleaved" ? 2 : 1}});
  MESSAGE(layouts << " layouts have the same bits");
}

TEST_CASE_TEMPLATE(
    "canonical order: parameters and losses have the same bits on every data, ZeRO and pipeline "
    "layout",
    T, float, bf16) {
  check_layouts<T>(false);
}

TEST_CASE_TEMPLATE(
    "canonical order: experts have the same bits on every data, ZeRO and pipeline layout", T, float,
    bf16) {
  check_layouts<T>(true);
}

TEST_CASE_TEMPLATE("canonical order: experts have the same bits whichever ranks divide them", T,
                   float, bf16) {
  bytes const expected = train<T>({.has_experts = true, .sequences = 16});
  auto const check = [&](layout layout_options) {
    CAPTURE(layout_options.shards);
    CAPTURE(layout_options.replicas);
    CAPTURE(static_cast<int>(layout_options.level));
    CAPTURE(layout_options.pipeline);
    CAPTURE(layout_options.expert_ranks);
    layout_options.has_experts = true;
    layout_options.sequences = 16;
    CHECK(train<T>(layout_options) == expected);
  };
  for (auto const& [replicas, experts] : {std::pair{2, 2}, {4, 2}, {4, 4}, {8, 4}, {8, 8}})
    check({.replicas = replicas, .expert_ranks = experts});
  using enum zero::level;
  for (auto const level : {optimizer, gradients, parameters})
    for (auto const& [shards, replicas, experts] :
         {std::tuple{2, 1, 2}, {4, 1, 2}, {2, 2, 4}, {4, 2, 2}, {2, 4, 2}})
      check({.shards = shards, .replicas = replicas, .level = level, .expert_ranks = experts});
  check({.replicas = 2, .pipeline = 2, .schedule = {.schedule = "1f1b"}, .expert_ranks = 2});
  check({.shards = 2,
         .level = parameters,
         .pipeline = 2,
         .schedule = {.schedule = "zb-h1"},
         .expert_ranks = 2});
}

TEST_CASE("order of ranks: the bits depend on the layout, unlike in the canonical order") {
  auto const train_by_rank = [](int replicas) {
    return train<float>({.replicas = replicas, .order = zero::reduction_order::by_rank});
  };
  auto const reference = train_by_rank(1);
  CHECK(reference != train_by_rank(2));
  CHECK(reference != train_by_rank(3));
}

TEST_CASE_TEMPLATE("reduce_dtype bf16: losses are nearly those of full precision", T, float, bf16) {
  using enum zero::level;
  for (auto const level : {none, optimizer, parameters}) {
    CAPTURE(static_cast<int>(level));
    layout layout_options{.shards = level == none ? 1 : 2,
                          .replicas = 2,
                          .level = level,
                          .order = zero::reduction_order::by_rank};
    auto const losses = [](bytes const& result) {
      std::vector<double> out(result.at("loss").size() / sizeof(double));
      std::memcpy(out.data(), result.at("loss").data(), result.at("loss").size());
      return out;
    };
    auto const full = losses(train<T>(layout_options));
    layout_options.dtype = zero::reduce_dtype::bf16;
    auto const narrow = losses(train<T>(layout_options));
    CHECK(narrow[0] == full[0]);  // the loss of the initial parameters
    CHECK(narrow != full);
    for (std::size_t i = 1; i < full.size(); ++i)
      CHECK(narrow[i] == doctest::Approx(full[i]).epsilon(2e-3));
  }
}

}  // namespace canonical_test
