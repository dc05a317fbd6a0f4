// A model that makes activations again in the backward pass has the bits of one that keeps them:
// fp64, every dropout on, under tensor and context ranks, ZeRO and pipelines, whose schedules may
// take the backward pass apart.
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

/// Everything that depends on positions and documents.
mpt::model_config positioned(index layers) {
  auto m = dropping(layers);
  m.learned_pos_emb = false;
  m.ffn_type = mpt::ffn_kind::mptglu;
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

/// All of every block, single parts, and different parts in different blocks.
std::vector<block_recomputation> choices(std::size_t blocks) {
  std::vector<block_recomputation> out{mpt::recompute_all(blocks)};
  out.emplace_back(blocks, mpt::recomputation{.attention = true, .feed_forward = true});
  auto& mixed = out.emplace_back(blocks);
  mixed[0] = {.attention_branch = true, .feed_forward_branch = true};
  mixed[1] = {.feed_forward = true};
  mixed[blocks - 1] = {.block = true};
  out.push_back(mpt::with_cheap_recomputation({}, blocks));
  out.push_back(mpt::with_cheap_recomputation(mixed, blocks));
  return out;
}

/// The same bits with each choice as without; and, unless a schedule takes the backward pass apart,
/// less memory. How much is the plan's business.
void check(mpt::model_config const& config, model_layout how, bool saves = true) {
  auto const keeping = run_model(config, how);
  REQUIRE(keeping.squared_norm > 0);
  for (auto const& again : choices(static_cast<std::size_t>(config.n_layers))) {
    how.recompute = again;
    auto const found = run_model(config, how);
    CHECK(found.tokens == keeping.tokens);
    CHECK(found.loss == keeping.loss);
    CHECK(found.evaluated == keeping.evaluated);
    CHECK(found.squared_norm == keeping.squared_norm);
    REQUIRE(found.gradients.size() == keeping.gradients.size());
    for (auto const& at : keeping.gradients) {
      auto const& [name, gradient] = at;
      auto const& other = found.gradients.at(name);
      REQUIRE(other.size() == gradient.size());
      CHECK_MESSAGE(
          std::memcmp(other.data(), at.second.data(), at.second.size() * sizeof(double)) == 0,
          at.first);
    }
    if (saves) CHECK(found.peak < keeping.peak);
  }
}

TEST_CASE("one rank") {
  check(dropping(3), {});
  check(positioned(3), {});
}

TEST_CASE("tensor ranks with rows divided between regions") {
  check(dropping(3), {.tensor = 2});
  check(positioned(3), {.tensor = 2});
}

TEST_CASE("context ranks, which exchange keys or heads a second time") {
  for (auto const method : {context_method::ring, context_method::ulysses})
    check(positioned(3), {.context = 2, .method = method});
  check(dropping(3), {.context = 2, .tensor = 2});
}

TEST_CASE("ZeRO, whose values are gathered for the backward pass and so for the second forward") {
  for (auto const level : {zero::level::gradients, zero::level::parameters})
    check(dropping(3), {.level = level, .shard = 2, .microbatch = 1});
}

TEST_CASE("pipelines, and tensor ranks in their stages") {
  for (std::string const schedule : {"gpipe", "1f1b"})
    check(dropping(3), {.tensor = 2, .pipeline = 2, .schedule = {schedule}, .microbatch = 1});
  check(positioned(4), {.pipeline = 2,
                        .schedule = {"interleaved", 2},
                        .level = zero::level::parameters,
                        .microbatch = 1});
}

TEST_CASE("an evaluation along a pipeline is that of one rank") {
  auto const config = positioned(3);
  auto const one = run_model(config, {.microbatch = 1});
  for (auto const& again : choices(3)) {
    auto const found = run_model(config, {.recompute = again, .pipeline = 3, .microbatch = 1});
    CHECK(std::abs(found.evaluated - one.evaluated) <= 1e-13 * one.evaluated);
  }
}

TEST_CASE("schedules that take the backward pass apart") {
  for (std::string const schedule : {"zb-h1", "zb-v"})
    check(positioned(4), {.tensor = 2, .pipeline = 2, .schedule = {schedule}, .microbatch = 1},
          false);
  check(dropping(4), {.pipeline = 2, .schedule = {"zb-h1"}, .microbatch = 1}, false);
}

TEST_CASE("the meta device plans what a rank that recomputes needs, to the byte") {
  auto const config = positioned(3);
  for (auto const& again : choices(3))
    for (int const tensor : {1, 2}) {
      mpt::model_groups groups;
      if (tensor > 1) groups.tensor = {decltype(groups.tensor.group)::planned(0, tensor), true};
      mpt::model<double> const planned(config, groups, again);
      CHECK(
          parallel::train::plan_microbatch(planned, mpt::sequences::shape_of(2, 12)).activations ==
          run_model(config, {.tensor = tensor, .recompute = again}).peak);
    }
}

TEST_CASE("a list of another length than the model is refused") {
  CHECK_THROWS_WITH_AS(mpt::model<double>(dropping(3), {}, mpt::recompute_all(2)),
                       "recomputation is given for 2 blocks of a model that has 3",
                       parallel::error);
}

}  // namespace model_recompute_test
