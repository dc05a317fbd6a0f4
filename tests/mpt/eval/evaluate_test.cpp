#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <mpt/eval/evaluate.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>

namespace evaluate_test {

TEST_CASE("evaluation: the unigram cross entropy is the entropy of the labels") {
  mpt::unigram_counter counter(4);
  std::vector<std::int32_t> const labels = {0, 0, 1, 2, -100, 0, 1};
  counter.add(labels);
  double const expected =
      -(0.5 * std::log(0.5) + 2.0 / 6 * std::log(2.0 / 6) + 1.0 / 6 * std::log(1.0 / 6));
  CHECK(counter.cross_entropy() == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE(
    "evaluation: a model of zero weights has cross entropy ln V in any division into batches") {
  mpt::model_config config;
  config.d_model = 16;
  config.n_heads = 2;
  config.n_layers = 1;
  config.vocab_size = 11;
  config.max_seq_len = 8;
  mpt::model<float> net(config);
  parallel::host::device device;
  parallel::train::weights<float> const weights(net, device);
  parallel::host::stream stream;
  for (parallel::index const rows : {1, 3}) {
    int batches = 2;
    auto const result = mpt::evaluate(net, device, stream, [&]() -> std::optional<mpt::sequences> {
      if (batches-- == 0) return std::nullopt;
      return mpt::sequences(std::vector<std::int32_t>(static_cast<std::size_t>(rows * 8), 5), 8);
    });
    CHECK(result.tokens == 2 * rows * 7);
    CHECK(result.cross_entropy == doctest::Approx(std::log(11.0)).epsilon(1e-6));
    CHECK(result.unigram_cross_entropy == doctest::Approx(0.0));
  }
}

TEST_CASE("evaluation: data without a labelled token is an error") {
  mpt::model_config config;
  config.d_model = 4;
  config.n_heads = 1;
  config.n_layers = 1;
  config.vocab_size = 4;
  mpt::model<float> net(config);
  parallel::host::device device;
  parallel::host::stream stream;
  CHECK_THROWS_WITH(static_cast<void>(mpt::evaluate(
                        net, device, stream, [] { return std::optional<mpt::sequences>(); })),
                    "there is nothing to evaluate: the data has no token with a label");
}

}  // namespace evaluate_test
