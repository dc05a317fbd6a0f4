// Initial distributions against numbers drawn by LLM Foundry's initialisers, 8 seeds of each.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/config/model/hf.hpp>
#include <mpt/model/model.hpp>

#include "support/golden/golden.hpp"

namespace initial_test {

/// Statistics of the numbers that LLM Foundry drew for a tensor.
struct drawn {
  double rms, smallest, largest, values;
};

void check(parallel::constant_init const& initializer, drawn const& reference) {
  CHECK(double(initializer.value) == reference.smallest);
  CHECK(double(initializer.value) == reference.largest);
}

void check(parallel::normal_init const& initializer, drawn const& reference) {
  double const deviation = double(initializer.deviation);
  // the root mean square of n normal numbers has the relative deviation 1/sqrt(2n)
  CHECK(std::abs(reference.rms / deviation - 1) <= 5 / std::sqrt(2 * reference.values));
  // a uniform distribution of this deviation ends at 1.73
  CHECK(reference.largest > 2 * deviation);
  CHECK(reference.smallest < -2 * deviation);
}

void check(parallel::uniform_init const& initializer, drawn const& reference) {
  double const low = double(initializer.low), high = double(initializer.high);
  double const rms = std::sqrt((low * low + low * high + high * high) / 3);
  CHECK(std::abs(reference.rms / rms - 1) <= 5 / std::sqrt(2 * reference.values));
  double const margin = 20 * (high - low) / reference.values;  // missed with probability e^-20
  CHECK(reference.smallest >= low - 1e-7);
  CHECK(reference.smallest <= low + margin);
  CHECK(reference.largest <= high + 1e-7);
  CHECK(reference.largest >= high - margin);
}

TEST_CASE("initial distributions: every scheme has LLM Foundry's, tensor by tensor") {
  std::ifstream in(test::golden_folder() / "init.json");
  auto const golden = nlohmann::json::parse(in);
  std::set<mpt::init_scheme> schemes;
  for (auto const& form : golden.at("cases").items()) {
    auto const& [label, entry] = form;
    CAPTURE(form.key());
    mpt::model<float> net(mpt::from_hf_json(entry.at("config"), label).model);
    schemes.insert(net.config().init.name);
    std::size_t compared = 0;
    net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
      layer.visit_parameters([&](auto const& p) {
        if (!form.value().at("tensors").contains(p.name)) return;  // of one block only
        CAPTURE(p.name);
        auto const& t = form.value().at("tensors").at(p.name);
        drawn const reference{t.at("rms"), t.at("least"), t.at("largest"), t.at("values")};
        std::visit([&](auto const& initializer) { check(initializer, reference); }, p.initial);
        ++compared;
      });
    });
    CHECK(compared == entry.at("tensors").size());
  }
  CHECK(schemes.size() == 8);
}

}  // namespace initial_test
