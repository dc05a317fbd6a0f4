// Frequencies of rotary positions against those of transformers (ROPE_INIT_FUNCTIONS, float).
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model.hpp>
#include <mpt/model/attention_positions.hpp>

#include "support/golden/golden.hpp"

namespace rotary_test {

void check(mpt::rope_config const& rope, std::int64_t head_dim, std::vector<double> const& wanted) {
  auto const got = mpt::rotary_frequencies(rope, head_dim);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-6));
}

TEST_CASE("rotary_frequencies: without scaling, pair i turns by theta^(-2i/D) per position") {
  check({}, 8, {1, 0.1, 0.01, 0.001});
  check({.theta = 16}, 4, {1, 0.25});
  check({}, 2, {1});
}

TEST_CASE("rotary_frequencies: linear scaling equals transformers'") {
  check({.theta = 500, .scaling = mpt::linear_rope{.factor = 4}}, 16,
        {0.25, 0.11496581882238388, 0.0528685599565506, 0.02431231178343296, 0.011180340312421322,
         0.005141428206115961, 0.0023643539752811193, 0.0010872796410694718});
}

TEST_CASE("rotary_frequencies: llama3 scaling equals transformers'") {
  check(
      {.scaling = mpt::llama3_rope{.factor = 8,
                                   .low_freq_factor = 1,
                                   .high_freq_factor = 4,
                                   .original_max_position_embeddings = 64}},
      16,
      {1.0, 0.24438458681106567, 0.013042256236076355, 0.0039528473280370235, 0.0012499999720603228,
       0.00039528473280370235, 0.0001250000059371814, 3.9528473280370235e-05});
}

TEST_CASE("rotary_growths: pair i grows by ln((2i/D + 0.4) / 1.4) in xpos_scale_base positions") {
  CHECK(mpt::rotary_growths({}, 8).empty());
  auto const got = mpt::rotary_growths({.xpos_scale_base = 512}, 4);
  REQUIRE(got.size() == 2);
  CHECK(std::exp(512 * got[0]) == doctest::Approx(0.4 / 1.4));
  CHECK(std::exp(512 * got[1]) == doctest::Approx(0.9 / 1.4));
  CHECK(std::exp(-512 * got[0]) == doctest::Approx(std::exp(mpt::largest_xpos_decay)));
}

}  // namespace rotary_test

namespace alibi_test {

TEST_CASE("ALiBi slopes: equal to the reference implementation's for 1 to 64 heads") {
  std::ifstream file(test::golden_folder() / "alibi_slopes.json");
  REQUIRE(file.good());
  auto const golden = nlohmann::json::parse(file);
  double const bias_max = golden.at("alibi_bias_max");
  CHECK(golden.at("slopes").size() == 64);
  for (auto const& entry : golden.at("slopes").items()) {
    auto const& [heads, expected] = entry;
    CAPTURE(entry.key());
    auto const slopes = mpt::alibi_slopes(std::stoi(heads), bias_max);
    REQUIRE(slopes.size() == expected.size());
    for (std::size_t i = 0; i < slopes.size(); ++i)
      CHECK(slopes[i] == doctest::Approx(expected[i].get<float>()).epsilon(1e-7));
  }
}

}  // namespace alibi_test
