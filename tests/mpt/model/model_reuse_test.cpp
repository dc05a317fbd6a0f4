// Blocks that attend to the keys of an earlier block (reuse_kv_layer_idx) give one rank's loss and
// gradients for every layout of the model and its sequences: in fp64, to 1e-12 of the largest
// gradient; with recomputation, the same bits. golden_test checks that the numbers are right.
#include <doctest/doctest.h>

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

/// Four blocks in two groups of two; a group attends to the keys of its first block. Every other
/// option that depends on positions or heads is set, too.
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

/// With xPos the lengths of queries and keys depend on positions, too.
mpt::model_config fading() {
  auto m = reusing(12);
  m.attn.rope->xpos_scale_base = 9;
  check_model(m, "");
  return m;
}

/// All blocks attend to the keys of the first, two of them by way of another block.
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
  for (auto const& layout : layouts) {
    CAPTURE(layout.context);
    CAPTURE(static_cast<int>(layout.method));
    CAPTURE(layout.tensor);
    CAPTURE(layout.pipeline);
    CAPTURE(static_cast<int>(layout.level));
    CAPTURE(layout.schedule.schedule);
    check_equal(run_model(config, layout), one);
  }
}

TEST_CASE("shared keys: data parallel, microbatches and ZeRO give one rank's gradients") {
  for (auto const& config : {reusing(12), chained()})
    check(config, {{.microbatch = 1},
                   {.schedule = {.overlap_weight_gradients = true}},
                   {.microbatch = 3},
                   {.level = zero::level::optimizer, .shard = 2, .microbatch = 1},
                   {.replicate = 2, .level = zero::level::gradients, .shard = 2, .microbatch = 1},
                   {.level = zero::level::parameters, .shard = 3, .microbatch = 1}});
}

TEST_CASE("shared keys: tensor ranks, also with a common key head, give one rank's gradients") {
  check(reusing(12), {{.tensor = 2}, {.tensor = 3}, {.tensor = 2, .sequence_parallel = false}});
  check(reusing(2), {{.tensor = 2}, {.tensor = 6}});
}

TEST_CASE("shared keys: context ranks, by ring or exchange of heads, give one rank's gradients") {
  for (auto const method : {context_method::ring, context_method::ulysses})
    for (auto const& config : {chained(), fading()})
      check(config,
            {{.context = 2, .method = method}, {.context = 2, .method = method, .tensor = 2}});
}

TEST_CASE("shared keys: pipelines whose stages hold all blocks that share keys, every schedule") {
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
  // schedules with two stages on each rank
  auto twice = reusing(12);
  twice.n_layers = 8;
  twice.layers.insert(twice.layers.end(), twice.layers.begin(), twice.layers.begin() + 4);
  check(twice, {{.pipeline = 2, .schedule = {"interleaved", 2}, .microbatch = 1},
                {.pipeline = 2, .schedule = {"zb-v", 2}, .microbatch = 1}});
}

TEST_CASE("shared keys: a block in another stage than the block with its keys is refused") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(run_model(chained(), {.pipeline = 2})),
      doctest::Contains("block 2 attends to the keys of block 0, so that one pipeline stage must "
                        "hold both, but this one holds blocks 2 to 3"),
      parallel::error);
}

TEST_CASE("shared keys: recomputation has the same bits") {
  for (auto const& config : {reusing(12), chained()})
    for (model_layout layout : {model_layout{}, {.tensor = 2}, {.context = 2}}) {
      auto const expected = run_model(config, layout);
      std::vector<mpt::block_recomputation> choices{mpt::recompute_all(4)};
      choices.emplace_back(4, mpt::recomputation{.attention = true});
      choices.emplace_back(4)[0] = {.block = true};             // only what makes keys
      choices.emplace_back(4)[3] = {.attention_branch = true};  // only what attends to another's
      for (auto const& choice : choices) {
        layout.recompute = choice;
        auto const found = run_model(config, layout);
        CHECK(found.loss == expected.loss);
        CHECK(found.evaluated == expected.evaluated);
        for (auto const& entry : expected.gradients) {
          auto const& [name, gradient] = entry;
          auto const& other = found.gradients.at(name);
          CHECK_MESSAGE(
              std::memcmp(other.data(), gradient.data(), gradient.size() * sizeof(double)) == 0,
              entry.first);
        }
        // the second forward pass of a single block may take more memory than its recomputation
        // saves
        if (&choice == &choices.front()) CHECK(found.peak < expected.peak);
      }
    }
}

TEST_CASE("shared keys: the meta device's plan of activations is exact to the byte") {
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

TEST_CASE("shared keys: generation caches keys only for blocks that make keys") {
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
