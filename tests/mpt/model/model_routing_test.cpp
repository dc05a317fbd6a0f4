// Routing does not depend on the layout: the experts of 4096 tokens in bf16 by trained routers.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/session.hpp>
#include <parallel/train/setup/stage.hpp>
#include <parallel/train/weights.hpp>

namespace model_routing_test {

using parallel::bf16;
using parallel::index;
namespace axis = parallel::axis;
namespace train = parallel::train;
using weights_by_name = std::map<std::string, std::vector<bf16>>;

constexpr index count = 16, length = 256, vocabulary = 64;  // 4096 tokens

mpt::model_config config() {
  mpt::model_config m;
  m.d_model = 32;
  m.n_heads = 4;
  m.n_layers = 3;
  m.vocab_size = vocabulary;
  m.max_seq_len = length;
  m.ffn_hidden_size = 32;
  m.ffn_type = mpt::ffn_kind::mptglu;
  m.experts = {.count = 8, .top_k = 2, .weight_norm = 1, .loss_weight = 0.05};
  check_model(m, "");
  return m;
}

/// Texts in which a token and its position say much about the next.
mpt::sequences texts(std::uint64_t seed) {
  parallel::philox const random(seed, 1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count * length));
  for (std::size_t i = 1; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>((random.bits(i) % 4 == 0
                                            ? random.bits(i + 1)
                                            : 5 * static_cast<std::uint64_t>(ids[i - 1]) + 3) %
                                       vocabulary);
  return {ids, length};
}

/// The weights after forty steps.
weights_by_name trained() {
  weights_by_name out;
  parallel::threads::run(1, [&](parallel::threads::communicator& thread) {
    parallel::any_communicator comm(std::move(thread));
    parallel::host::device device;
    mpt::model<bf16> net(config());
    train::session session(net, device, comm, parallel::decoupled_adamw{.learning_rate = 1e-2}, {});
    session.initialise(3);
    std::vector<index> const first{0};
    for (std::uint32_t step = 0; step < 40; ++step) {
      auto const batch = texts(step);
      std::vector<mpt::microbatch> const whole{batch.view({0, count})};
      static_cast<void>(session.step({.microbatches = whole, .first_sequences = first},
                                     {.seed = 1, .step = step}, 1.0));
    }
    net.visit_units([&](auto const&, auto& layer, auto const&, auto const&) {
      parallel::visit_parameters_of(
          layer, [&](auto& p) { out[p.name].assign(p.data, p.data + p.size()); });
    });
  });
  return out;
}

struct layout {
  int data = 1, context = 1, tensor = 1, threads = 1;
  index microbatch = count;
  parallel::context_parallel::method method = parallel::context_parallel::method::ulysses;
};

/// The experts of every token of every layer.
std::vector<std::int32_t> routes(weights_by_name const& values, layout const& run_layout) {
  auto const shape = parallel::training_layout{}
                         .with_degree<axis::replicate>(run_layout.data)
                         .with_degree<axis::context>(run_layout.context)
                         .with_degree<axis::tensor>(run_layout.tensor);
  auto const m = config();
  std::vector<std::int32_t> out(
      static_cast<std::size_t>(m.n_layers * count * length * m.experts->top_k), -1);
  std::mutex lock;
  parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& comm) {
    train::process_groups groups(parallel::any_communicator(comm.split(0)), shape,
                                 parallel::zero::level::none);
    parallel::host::stream along_tensor, back_along_tensor, along_context, back_along_context;
    mpt::model_groups model_groups;
    if (run_layout.tensor > 1)
      model_groups.tensor.group = {groups.tensor, along_tensor, back_along_tensor};
    if (run_layout.context > 1)
      model_groups.context.group = {groups.context, along_context, back_along_context};
    model_groups.context.method = run_layout.method;
    mpt::model<bf16> net(m, model_groups);
    parallel::host::device device;
    train::weights<bf16> const weights(net, device);
    weights.for_each([&](auto const& p, auto values_on_device) {
      p.for_each_run(0, p.size(), [&](index first, index size, index global) {
        std::copy_n(values.at(p.name).begin() + global, size, values_on_device.begin() + first);
      });
    });
    auto const sequences = texts(1000);
    auto const rank_part = parallel::data::share_of(count, groups.data_rank(), groups.data_ranks());
    parallel::context_parallel::sequence_partition const part(groups.context.rank(),
                                                              run_layout.context, length);
    auto const rank_sequences = sequences.divided(part);
    for (auto const& share : parallel::data::microbatches(rank_part, run_layout.microbatch)) {
      parallel::host::stream compute({.threads = run_layout.threads});
      parallel::arena memory(device.allocate<std::byte>(std::size_t{64} << 20));
      auto const batch = rank_sequences.view(share);
      auto const c = train::context_of(net, compute, memory, parallel::pass::training, {}, batch);
      train::stage<mpt::model<bf16>> const blocks(net, {0, m.n_layers, true, false});
      train::pass_memory<mpt::model<bf16>> shared(memory);
      train::stage_activations<mpt::model<bf16>> saved;
      train::statistics<double> sums;
      blocks.run(parallel::pipeline::action_kind::forward, c, shared, batch, {}, saved, sums);
      compute.synchronize();
      std::scoped_lock const guard(lock);
      for (index layer = 0; layer < m.n_layers; ++layer) {
        auto const experts =
            mpt::mixture_activations<bf16>(saved.blocks[static_cast<std::size_t>(layer)])
                .routed.choices.experts;
        for (index s = 0; s < share.size(); ++s)
          for (int run = 0; run < part.runs(); ++run) {
            auto const rows = part.run_at(run);
            for (index i = 0; i < rows.count; ++i)
              for (index k = 0; k < experts.extent(1); ++k) {
                index const token = (share.begin + s) * length + rows.position + i;
                out[static_cast<std::size_t>((layer * count * length + token) * experts.extent(1) +
                                             k)] = experts(s * part.length() + rows.row + i, k);
              }
          }
      }
    }
  });
  return out;
}

TEST_CASE("routing: not one of 4096 tokens goes to another expert in 30 layouts, in bf16") {
  auto const values = trained();
  auto const expected = routes(values, {});
  REQUIRE(std::ranges::count(expected, -1) == 0);
  std::vector<index> tokens(8);
  for (auto const expert : expected) ++tokens[static_cast<std::size_t>(expert)];
  for (index const load : tokens) CHECK(load > 0);
  auto const changed = [&](layout const& run_layout) {
    auto const found = routes(values, run_layout);
    index out = 0;
    for (std::size_t i = 0; i < found.size(); ++i) out += found[i] != expected[i] ? 1 : 0;
    return out;
  };
  int layouts = 0;
  for (int const data : {1, 2, 3, 5})
    for (index const microbatch : {1, 2, 4})
      for (int const context : {1, 2, 4}) {
        CAPTURE(data);
        CAPTURE(microbatch);
        CAPTURE(context);
        CHECK(changed({.data = data,
                       .context = context,
                       .threads = 1 + layouts % 3,
                       .microbatch = microbatch}) == 0);
        ++layouts;
      }
  auto const choices = static_cast<double>(expected.size());
  for (int const tensor : {2, 4})
    MESSAGE("tensor ", tensor, ": ", changed({.tensor = tensor}), " of ", choices, " choices");
  for (int const context : {2, 4})
    MESSAGE("ring of ", context, ": ",
            changed({.context = context, .method = parallel::context_parallel::method::ring}),
            " of ", choices, " choices");
  MESSAGE(layouts << " layouts route alike");
}

}  // namespace model_routing_test
