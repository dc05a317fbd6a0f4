// MPT in bf16 on every axis of the mesh, against fp64.
//
// What a layout changes in bf16 is where it rounds. Other data ranks, ZeRO stages and pipelines
// change only the order of sums in float: at most a few units of 2^-24 of the largest gradient. A
// row-parallel product over T ranks rounds T addends y_t and their sum y to bf16, where one rank
// rounds nothing before it has added the residual: with u = 2^-9 a variance of u²/3 (Σ y_t² + y²).
// Of a product of random signs, Σ y_t² and y² are both about the sum of its terms' squares, so that
// is no more than rounding both factors of every term to bf16 has put there already, on one rank as
// well. Every logit is one product of full depth, rounded once wherever its column of the
// vocabulary lies. So the root mean square distance from fp64 grows by less than √2; a reduction
// that is left out or doubled passes 2 by far.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "support/model_comparison.hpp"
#include "support/model_run.hpp"

namespace model_bf16_test {

using parallel::bf16;
using test::context_method;
using test::model_layout;
using test::model_outcome;
using test::run_model;
using enum parallel::zero::level;

mpt::model_config config() {
  mpt::model_config m;
  m.d_model = 48;
  m.n_heads = 6;
  m.n_layers = 3;
  m.vocab_size = 18;
  m.max_seq_len = 24;
  m.expansion_ratio = 2;
  m.attn.alibi = true;
  m.learned_pos_emb = false;
  check_model(m, "");
  return m;
}

struct references {
  model_outcome exact = run_model(config(), {});
  model_outcome one = run_model<bf16>(config(), {});
};

TEST_CASE("orders of sums in float move the last bits of gradients alone") {
  references const r;
  for (model_layout const& how :
       {model_layout{.replicate = 3}, model_layout{.level = optimizer, .shard = 2},
        model_layout{.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1},
        model_layout{.pipeline = 3, .level = gradients, .shard = 2, .microbatch = 1}}) {
    CAPTURE(how.replicate);
    CAPTURE(how.pipeline);
    auto const got = run_model<bf16>(config(), how);
    double worst = 0;
    for (auto const& [name, gradient] : r.one.gradients)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        worst = std::max(worst, std::abs(got.gradients.at(name).at(i) - gradient[i]));
    CHECK(worst <= 0x1p-20 * test::largest(r.one));
    CHECK(std::abs(got.loss - r.one.loss) <= 0x1p-20 * r.one.loss);
  }
}

TEST_CASE("divided heads, hidden units and positions stay within twice one rank's distance") {
  references const r;
  for (model_layout const& how :
       {model_layout{.tensor = 2}, model_layout{.tensor = 3}, model_layout{.context = 2},
        model_layout{.context = 3, .method = context_method::ulysses},
        model_layout{.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1},
        model_layout{.tensor = 3, .pipeline = 2, .microbatch = 1}}) {
    CAPTURE(how.tensor);
    CAPTURE(how.context);
    CAPTURE(how.pipeline);
    auto const got = run_model<bf16>(config(), how);
    CHECK(got.tokens == r.exact.tokens);
    double const of_one = std::abs(r.one.loss - r.exact.loss);
    CHECK(std::abs(got.loss - r.exact.loss) <= of_one + 0x1p-9 * r.exact.loss);
    for (auto const& at : r.exact.gradients) {
      auto const& [name, exact] = at;
      CAPTURE(at.first);
      double const one = test::distance(r.one.gradients.at(name), exact);
      double const found = test::distance(got.gradients.at(name), exact);
      CHECK(one > 0x1p-12);  // bf16 it is
      CHECK(found <= 2 * one);
    }
  }
}

}  // namespace model_bf16_test
