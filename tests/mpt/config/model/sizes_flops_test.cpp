// Tests of the FLOPs with adapters. model_test.cpp tests LLM Foundry's formula with the published
// sizes, and train/plan_run_test.cpp the count of a run's plan.
#include <cstdint>

#include <doctest/doctest.h>

#include <mpt/config/model/linear_layers.hpp>
#include <mpt/config/model/sizes.hpp>

namespace flops_test {

TEST_CASE("training FLOPs: frozen weights with adapters have no weight gradient") {
  auto const whole = mpt::named_size("7b");
  auto adapted = whole;
  adapted.lora = mpt::lora_config{.rank = 64, .targets = {"Wqkv"}};
  // rank x (in + out) of [12288, 4096] in 32 blocks
  CHECK(mpt::adapter_parameter_count(adapted) == 32 * 64 * (4096 + 12288));
  auto const saved = 2 * mpt::parameter_count(whole) - 6 * std::int64_t{32 * 64 * (4096 + 12288)};
  for (std::int64_t const length : {1, 2048}) {
    CHECK(mpt::flops_per_token(whole, length) - mpt::flops_per_token(adapted, length) == saved);
    CHECK(mpt::causal_flops_per_token(whole, length) -
              mpt::causal_flops_per_token(adapted, length) ==
          saved);
  }
}

TEST_CASE("training FLOPs: a token's scores with a window are those of the window") {
  auto const whole = mpt::named_size("7b");
  auto windowed = whole;
  windowed.attn.sliding_window_size = 511;  // and the token's own key
  constexpr std::int64_t length = 2048;
  auto const scores_per_key = 12 * mpt::query_width(whole) * whole.n_layers;
  CHECK(mpt::flops_per_token(whole, length) - mpt::flops_per_token(windowed, length) ==
        scores_per_key * (length - 512));
  CHECK(mpt::flops_per_token(windowed, 512) == mpt::flops_per_token(whole, 512));
  CHECK(mpt::causal_flops_per_token(windowed, length) < mpt::flops_per_token(windowed, length));
}

}  // namespace flops_test
