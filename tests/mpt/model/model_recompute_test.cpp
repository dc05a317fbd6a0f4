// A model that recomputes activations in the backward pass has the bits of a model that saves them:
// in fp64, with every dropout, under tensor and context parallel, ZeRO and pipelines, whose
// schedules may split the backward pass.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "support/model_run.hpp"

namespace model_recompute_test {

using mpt::block_recomputation;
using parallel::index;
using test::context_method;
using test::model_layout;
using test::run_model;
namespace zero = parallel::zero;

mpt::model_config dropping(index layers) {
  mpt::model_config m;
  m.d_model = 24;
  m.n_heads = 4;
  m.n_layers = layers;
  m.vocab_size = 18;
  m.max_seq_len = 12;
  m.resid_pdrop = m.emb_pdrop = 0.25;
  m.attn.attn_pdrop = 0.1;
  check_model(m, "");
  return m;
}

/// Everything that depends on positions and documents; norms of 1 + weight on both sides of scaled
/// results, and one matrix for gate and up.
mpt::model_config positioned(index layers) {
  auto m = dropping(layers);
  m.learned_pos_emb = false;
  m.ffn_type = mpt::ffn_kind::mptglu;
  m.fused_gate = true;
  m.branch_norms = mpt::norm_position::both;
  m.norm_unit_offset = true;
  m.residual_scale = 0.5;
  m.embedding_scale = 3;
  m.attn.kv_n_heads = 2;
  m.attn.fused_qkv = false;
  m.attn.qk_gn = true;
  m.attn.clip_qkv = 1.5;
  m.attn.rope = mpt::rope_config{.theta = 100};
  m.attn.attn_uses_sequence_id = true;
  m.attn.temperature = {.floor_scale = 3, .attn_scale = 0.2};
  check_model(m, "");
  return m;
}

/// Recomputation of every block, of single parts, and of different parts in different blocks.
std::vector<block_recomputation> choices(std::size_t blocks) {
  std::vector<block_recomputation> out{mpt::recompute_all(blocks)};
  out.emplace_back(blocks, mpt::recomputation{.attention = true, .feed_forward = true});
  auto& different_parts = out.emplace_back(blocks);
  different_parts[0] = {.attention_branch = true, .feed_forward_branch = true};
  different_parts[1] = {.feed_forward = true};
  different_parts[blocks - 1] = {.block = true};
  out.push_back(mpt::with_cheap_recomputation({}, blocks));
  out.push_back(mpt::with_cheap_recomputation(different_parts, blocks));
  return out;
}

/// Checks that each choice has the same bits as no recomputation and, with `saves_memory`, that it
/// takes less memory. (A schedule that splits the backward pass may not save memory.)
void check(mpt::model_config const& config, model_layout layout, bool saves_memory = true) {
  auto const expected = run_model(config, layout);
  REQUIRE(expected.squared_norm > 0);
  for (auto const& choice : choices(static_cast<std::size_t>(config.n_layers))) {
    layout.recompute = choice;
    auto const found = run_model(config, layout);
    CHECK(found.tokens == expected.tokens);
    CHECK(found.loss == expected.loss);
    CHECK(found.evaluated == expected.evaluated);
    CHECK(found.squared_norm == expected.squared_norm);
    REQUIRE(found.gradients.size() == expected.gradients.size());
    for (auto const& entry : expected.gradients) {
      auto const& [name, gradient] = entry;
      auto const& other = found.gradients.at(name);
      REQUIRE(other.size() == gradient.size());
      CHECK_MESSAGE(
          std::memcmp(other.data(), entry.second.data(), entry.second.size() * sizeof(double)) == 0,
          entry.first);
    }
    if (saves_memory) CHECK(found.peak < expected.peak);
  }
}

TEST_CASE("recomputation: the same bits on one rank") {
  check(dropping(3), {});
  check(positioned(3), {});
}

TEST_CASE("recomputation: the same bits on tensor ranks with sequence parallelism") {
  check(dropping(3), {.tensor = 2});
  check(positioned(3), {.tensor = 2});
}

TEST_CASE("recomputation: the same bits on context ranks, which exchange keys or heads twice") {
  for (auto const method : {context_method::ring, context_method::ulysses})
    check(positioned(3), {.context = 2, .method = method});
  check(dropping(3), {.context = 2, .tensor = 2});
}

TEST_CASE("recomputation: the same bits under ZeRO, which gathers parameters for both passes") {
  for (auto const level : {zero::level::gradients, zero::level::parameters})
    check(dropping(3), {.level = level, .shard = 2, .microbatch = 1});
}

TEST_CASE("recomputation: the same bits on pipelines with tensor ranks in their stages") {
  for (std::string const schedule : {"gpipe", "1f1b"})
    check(dropping(3), {.tensor = 2, .pipeline = 2, .schedule = {schedule}, .microbatch = 1});
  check(positioned(4), {.pipeline = 2,
                        .schedule = {"interleaved", 2},
                        .level = zero::level::parameters,
                        .microbatch = 1});
}

TEST_CASE("recomputation: an evaluation along a pipeline is that of one rank") {
  auto const config = positioned(3);
  auto const one = run_model(config, {.microbatch = 1});
  for (auto const& choice : choices(3)) {
    auto const found = run_model(config, {.recompute = choice, .pipeline = 3, .microbatch = 1});
    CHECK(std::abs(found.evaluated - one.evaluated) <= 1e-13 * one.evaluated);
  }
}

TEST_CASE("recomputation: the same bits under schedules that split the backward pass") {
  for (std::string const schedule : {"zb-h1", "zb-v"})
    check(positioned(4), {.tensor = 2, .pipeline = 2, .schedule = {schedule}, .microbatch = 1},
          false);
  check(dropping(4), {.pipeline = 2, .schedule = {"zb-h1"}, .microbatch = 1}, false);
}

TEST_CASE("meta device: the plan of a rank that recomputes is exact to the byte") {
  auto const config = positioned(3);
  for (auto const& choice : choices(3))
    for (int const tensor : {1, 2}) {
      mpt::model_groups groups;
      if (tensor > 1) groups.tensor = {decltype(groups.tensor.group)::planned(0, tensor), true};
      mpt::model<double> const planned(config, groups, choice);
      CHECK(
          parallel::train::plan_microbatch(planned, mpt::sequences::shape_of(2, 12)).activations ==
          run_model(config, {.tensor = tensor, .recompute = choice}).peak);
    }
}

TEST_CASE("recomputation: a list of another length than the model's blocks is refused") {
  CHECK_THROWS_WITH_AS(mpt::model<double>(dropping(3), {}, mpt::recompute_all(2)),
                       "recomputation is given for 2 blocks of a model that has 3",
                       parallel::error);
}

}  // namespace model_recompute_test
