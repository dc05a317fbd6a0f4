// Blocks that attend to the keys of an earlier one (reuse_kv_layer_idx) give one rank's loss and
// gradients however the model and its sequences are laid over ranks: fp64, to 1e-12 of the largest
// gradient; with recomputation, the same bits. That the numbers are right is golden_test's
// business.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <mpt/generate/generate.hpp>
#include <mpt/generate/model_decoder.hpp>

#include "support/model_comparison.hpp"

namespace model_reuse_test {

using parallel::index;
using test::check_equal;
using test::context_method;
using test::model_layout;
using test::run_model;
namespace zero = parallel::zero;

/// Four blocks in two groups of two, each attending to the keys of its first; everything else that
/// depends on positions or heads is there, too.
mpt::model_config reusing(index kv_heads) {
  mpt::model_config m;
  m.d_model = 48;
  m.n_heads = 12;
  m.n_layers = 4;
  m.vocab_size = 18;
  m.max_seq_len = 24;
  m.expansion_ratio = 1;
  m.learned_pos_emb = false;
  m.resid_pdrop = 0.25;
  m.attn.attn_pdrop = 0.1;
  m.attn.kv_n_heads = kv_heads;
  m.attn.qk_ln = true;
  m.attn.clip_qkv = 1.5;
  m.attn.rope = mpt::rope_config{.theta = 100};
  m.attn.attn_uses_sequence_id = true;
  m.layers.resize(4);
  m.layers[1] = {.sliding_window_size = 5, .reuse_kv_layer_idx = -1};
  m.layers[3] = {.floor_scale = 3, .attn_scale = 0.2, .nope = true, .reuse_kv_layer_idx = -1};
  check_model(m, "");
  return m;
}

/// Lengths of queries and keys depend on positions, too, and not on where the sequence is divided.
mpt::model_config fading() {
  auto m = reusing(12);
  m.attn.rope->xpos_scale_base = 9;
  check_model(m, "");
  return m;
}

/// All blocks attend to the keys of the first, one through another.
mpt::model_config chained() {
  auto m = reusing(12);
  m.layers[2] = {.reuse_kv_layer_idx = -2};
  check_model(m, "");
  return m;
}

void check(mpt::model_config const& config, std::vector<model_layout> const& layouts) {
  auto const one = run_model(config, {});
  CHECK(one.gradients.contains("transformer.blocks.1.attn.Wq.weight"));
  CHECK(!one.gradients.contains("transformer.blocks.1.attn.Wqkv.weight"));
  CHECK(!one.gradients.contains("transformer.blocks.1.attn.k_ln.weight"));
  for (auto const& how : layouts) {
    CAPTURE(how.context);
    CAPTURE(static_cast<int>(how.method));
    CAPTURE(how.tensor);
    CAPTURE(how.pipeline);
    CAPTURE(static_cast<int>(how.level));
    CAPTURE(how.schedule.schedule);
    check_equal(run_model(config, how), one);
  }
}

TEST_CASE("other sequences, microbatches and ZeRO on one rank or several") {
  for (auto const& config : {reusing(12), chained()})
    check(config, {{.microbatch = 1},
                   {.schedule = {.overlap_weight_gradients = true}},
                   {.microbatch = 3},
                   {.level = zero::level::optimizer, .shard = 2, .microbatch = 1},
                   {.replicate = 2, .level = zero::level::gradients, .shard = 2, .microbatch = 1},
                   {.level = zero::level::parameters, .shard = 3, .microbatch = 1}});
}

TEST_CASE("tensor ranks, of which some may hold the same key head") {
  check(reusing(12), {{.tensor = 2}, {.tensor = 3}, {.tensor = 2, .sequence_parallel = false}});
  check(reusing(2), {{.tensor = 2}, {.tensor = 6}});
}

TEST_CASE("context ranks, by the ring and by the exchange of heads") {
  for (auto const method : {context_method::ring, context_method::ulysses})
    for (auto const& config : {chained(), fading()})
      check(config,
            {{.context = 2, .method = method}, {.context = 2, .method = method, .tensor = 2}});
}

TEST_CASE("pipelines whose stages hold blocks that share keys, whatever the schedule") {
  std::vector<model_layout> layouts;
  for (std::string const schedule : {"gpipe", "1f1b", "zb-h1"})
    layouts.push_back({.pipeline = 2, .schedule = {schedule}, .microbatch = 1});
  layouts.push_back({.context = 2,
                     .tensor = 2,
                     .pipeline = 2,
                     .level = zero::level::parameters,
                     .shard = 2,
                     .microbatch = 1});
  check(reusing(12), layouts);
  // with more than one level a rank
  auto twice = reusing(12);
  twice.n_layers = 8;
  twice.layers.insert(twice.layers.end(), twice.layers.begin(), twice.layers.begin() + 4);
  check(twice, {{.pipeline = 2, .schedule = {"interleaved", 2}, .microbatch = 1},
                {.pipeline = 2, .schedule = {"zb-v", 2}, .microbatch = 1}});
}

TEST_CASE("blocks in other stages than the one whose keys they attend to are refused") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(run_model(chained(), {.pipeline = 2})),
      doctest::Contains("block 2 attends to the keys of block 0, so that one pipeline stage must "
                        "hold both, but this one holds blocks 2 to 3"),
      parallel::error);
}

TEST_CASE("what makes its activations again has the same bits") {
  for (auto const& config : {reusing(12), chained()})
    for (model_layout how : {model_layout{}, {.tensor = 2}, {.context = 2}}) {
      auto const keeping = run_model(config, how);
      std::vector<mpt::block_recomputation> choices{mpt::recompute_all(4)};
      choices.emplace_back(4, mpt::recomputation{.attention = true});
      choices.emplace_back(4)[0] = {.block = true};             // only what makes keys
      choices.emplace_back(4)[3] = {.attention_branch = true};  // only what attends to another's
      for (auto const& again : choices) {
        how.recompute = again;
        auto const found = run_model(config, how);
        CHECK(found.loss == keeping.loss);
        CHECK(found.evaluated == keeping.evaluated);
        for (auto const& at : keeping.gradients) {
          auto const& [name, gradient] = at;
          auto const& other = found.gradients.at(name);
          CHECK_MESSAGE(
              std::memcmp(other.data(), gradient.data(), gradient.size() * sizeof(double)) == 0,
              at.first);
        }
        // of one block alone, the room that its second forward pass takes may be more than it
        // spares
        if (&again == &choices.front()) CHECK(found.peak < keeping.peak);
      }
    }
}

TEST_CASE("the meta device plans the activations to the byte") {
  for (auto const& config : {reusing(12), chained()})
    for (int const tensor : {1, 2}) {
      mpt::model_groups groups;
      if (tensor > 1) groups.tensor = {decltype(groups.tensor.group)::planned(0, tensor), true};
      mpt::model<double> const planned(config, groups);
      CHECK(
          parallel::train::plan_microbatch(planned, mpt::sequences::shape_of(2, 24)).activations ==
          run_model(config, {.tensor = tensor}).peak);
    }
}

TEST_CASE("generation keeps keys once") {
  mpt::model<float> const net(reusing(12));
  auto const bytes = [&](parallel::index tokens) {
    return mpt::decoder_bytes(net, {.tokens = tokens, .rows = 1},
                              {parallel::train::whole_model(net)},
                              [](mpt::microbatch const&) { return std::size_t{0}; });
  };
  // blocks 0 and 2 make keys, blocks 1 and 3 attend to theirs
  CHECK(bytes(64) - bytes(32) ==
        2 * 32 * sizeof(float) * static_cast<std::size_t>(net.key_width()));
}

}  // namespace model_reuse_test
