#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/model/alibi.hpp>

#include "support/golden/golden.hpp"

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
