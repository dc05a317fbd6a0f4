// Initial distributions against numbers that LLM Foundry's own initialisers drew, 8 seeds of each.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/model/model.hpp>

#include "support/golden.hpp"

namespace initial_test {

/// What LLM Foundry drew for a tensor.
struct drawn {
  double rms, least, largest, values;
};

void check(parallel::constant_init const& ours, drawn const& theirs) {
  CHECK(double(ours.value) == theirs.least);
  CHECK(double(ours.value) == theirs.largest);
}

void check(parallel::normal_init const& ours, drawn const& theirs) {
  double const deviation = double(ours.deviation);
  // the root mean square of n normal numbers has the relative deviation 1/sqrt(2n)
  CHECK(std::abs(theirs.rms / deviation - 1) <= 5 / std::sqrt(2 * theirs.values));
  // a uniform distribution of this deviation ends at 1.73
  CHECK(theirs.largest > 2 * deviation);
  CHECK(theirs.least < -2 * deviation);
}

void check(parallel::uniform_init const& ours, drawn const& theirs) {
  double const low = double(ours.low), high = double(ours.high);
  double const rms = std::sqrt((low * low + low * high + high * high) / 3);
  CHECK(std::abs(theirs.rms / rms - 1) <= 5 / std::sqrt(2 * theirs.values));
  double const margin = 20 * (high - low) / theirs.values;  // missed with probability e^-20
  CHECK(theirs.least >= low - 1e-7);
  CHECK(theirs.least <= low + margin);
  CHECK(theirs.largest <= high + 1e-7);
  CHECK(theirs.largest >= high - margin);
}

TEST_CASE("every scheme has LLM Foundry's distributions, tensor by tensor") {
  std::ifstream in(test::golden_folder() / "init.json");
  auto const golden = nlohmann::json::parse(in);
  std::set<mpt::init_scheme> schemes;
  for (auto const& at : golden.at("cases").items()) {
    auto const& [label, entry] = at;
    CAPTURE(at.key());
    mpt::model<float> net(mpt::from_hf_json(entry.at("config"), label).model);
    schemes.insert(net.config().init.name);
    std::size_t compared = 0;
    net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
      layer.visit_parameters([&](auto const& p) {
        if (!at.value().at("tensors").contains(p.name)) return;  // of one block only
        CAPTURE(p.name);
        auto const& t = at.value().at("tensors").at(p.name);
        drawn const theirs{t.at("rms"), t.at("least"), t.at("largest"), t.at("values")};
        std::visit([&](auto const& ours) { check(ours, theirs); }, p.initial);
        ++compared;
      });
    });
    CHECK(compared == entry.at("tensors").size());
  }
  CHECK(schemes.size() == 8);
}

}  // namespace initial_test
