// MPT in bf16 on every axis of the mesh, against fp64.
//
// In bf16 a layout changes only where results are rounded. The number of data ranks, the ZeRO stage
// and the pipeline change only the order of sums in float: by at most a few units of 2^-24 of the
// largest gradient. A row-parallel product over T ranks rounds T addends y_t and their sum y to
// bf16, where one rank rounds nothing before it has added the residual. With u = 2^-9 this adds a
// variance of u²/3 (Σ y_t² + y²). In a product of random signs, Σ y_t² and y² are both about the
// sum of its terms' squares, so the added variance is at most that of rounding both factors of
// every term to bf16, which one rank has as well. Every logit is one product of full depth that is
// rounded once, on whichever rank its column of the vocabulary is. So the root mean square distance
// from fp64 grows by less than √2; a reduction that is left out or doubled exceeds 2 by far.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

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

TEST_CASE("bf16 model: data, ZeRO and pipeline layouts change only the last bits of gradients") {
  references const r;
  for (model_layout const& layout :
       {model_layout{.replicate = 3}, model_layout{.level = optimizer, .shard = 2},
        model_layout{.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1},
        model_layout{.pipeline = 3, .level = gradients, .shard = 2, .microbatch = 1}}) {
    CAPTURE(layout.replicate);
    CAPTURE(layout.pipeline);
    auto const got = run_model<bf16>(config(), layout);
    double worst = 0;
    for (auto const& [name, gradient] : r.one.gradients)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        worst = std::max(worst, std::abs(got.gradients.at(name).at(i) - gradient[i]));
    CHECK(worst <= 0x1p-20 * test::largest(r.one));
    CHECK(std::abs(got.loss - r.one.loss) <= 0x1p-20 * r.one.loss);
  }
}

TEST_CASE("bf16 model: tensor and context layouts stay within twice one rank's distance to fp64") {
  references const r;
  for (model_layout const& layout :
       {model_layout{.tensor = 2}, model_layout{.tensor = 3}, model_layout{.context = 2},
        model_layout{.context = 3, .method = context_method::ulysses},
        model_layout{.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1},
        model_layout{.tensor = 3, .pipeline = 2, .microbatch = 1}}) {
    CAPTURE(layout.tensor);
    CAPTURE(layout.context);
    CAPTURE(layout.pipeline);
    auto const got = run_model<bf16>(config(), layout);
    CHECK(got.tokens == r.exact.tokens);
    double const one_rank_error = std::abs(r.one.loss - r.exact.loss);
    CHECK(std::abs(got.loss - r.exact.loss) <= one_rank_error + 0x1p-9 * r.exact.loss);
    for (auto const& entry : r.exact.gradients) {
      auto const& [name, exact] = entry;
      CAPTURE(entry.first);
      double const one = test::distance(r.one.gradients.at(name), exact);
      double const found = test::distance(got.gradients.at(name), exact);
      CHECK(one > 0x1p-12);  // this run does compute in bf16
      CHECK(found <= 2 * one);
    }
  }
}

}  // namespace model_bf16_test
