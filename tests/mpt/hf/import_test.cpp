#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/export.hpp>
#include <mpt/hf/import.hpp>
#include <parallel/support/files.hpp>

namespace hf_import_test {
namespace hf = mpt::hf;

void zeros(std::string const&, parallel::index, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
}

void write(std::filesystem::path const& folder, std::vector<hf::named_shape> const& tensors) {
  hf::hf_export(folder, tensors, zeros, {.config = nlohmann::json::object()});
}

TEST_CASE("import: one error lists the tensors that do not fit the model") {
  test::temporary_folder const folder;
  write(folder / "m", {{"a", {2, 3}}, {"b", {4}}, {"lm_head.weight", {2}}});
  hf::hf_import const read(folder / "m");
  std::vector<hf::named_shape> const right = {{"b", {4}}, {"a", {2, 3}}};
  CHECK(test::message_of([&] { read.require_tensors(right, {"lm_head.weight"}); }).empty());
  std::vector<hf::named_shape> const wrong = {{"a", {3, 2}}, {"c", {1}}};
  auto const message = test::message_of([&] { read.require_tensors(wrong); });
  CHECK(test::contains(message,
                       "/m: its tensors do not fit its config.json: "
                       "\"a\" has shape [2, 3], expected [3, 2]; \"c\" is missing; "
                       "\"b\" is not known to this model; \"lm_head.weight\" is not"));
  std::vector<hf::named_shape> many;
  for (int i = 0; i < 30; ++i) many.push_back({parallel::concat("x", i), {1}});
  CHECK(test::contains(test::message_of([&] { read.require_tensors(many); }), "; and 23 more"));
}

TEST_CASE("import: the copies of a tied tensor must be equal") {
  test::temporary_folder const folder;
  std::vector<hf::named_shape> const tensors = {
      {"wte", {3}}, {"head", {3}}, {"other", {3}}, {"long", {4}}};
  hf::hf_export(folder / "m", tensors,
                [](std::string const& name, parallel::index, std::span<float> out) {
                  std::fill(out.begin(), out.end(), name == "other" ? 1.0F : 2.0F);
                },
                {.config = nlohmann::json::object()});
  hf::hf_import const read(folder / "m");
  CHECK(test::message_of([&] { read.require_same("wte", "head"); }).empty());
  CHECK(test::message_of([&] { read.require_same("wte", "absent"); }).empty());
  CHECK(test::contains(test::message_of([&] { read.require_same("wte", "other"); }),
                       "\"wte\" and \"other\" should be the same"));
  CHECK(test::contains(test::message_of([&] { read.require_same("wte", "long"); }), "differ"));
}

TEST_CASE("import: a folder without a readable config.json is refused") {
  test::temporary_folder const folder;
  auto const problem = [&] {
    return test::message_of([&] { hf::hf_import const read(folder / "m"); });
  };
  CHECK(test::contains(problem(), "/m/config.json: cannot open"));
  write(folder / "m", {{"a", {1}}});
  CHECK(problem().empty());
  test::write_all(folder / "m/config.json", "[]");
  CHECK(test::contains(problem(), "must be a JSON object"));
  test::write_all(folder / "m/config.json", "{\"a\":1,\"a\":2}");
  CHECK(test::contains(problem(), "key \"a\" appears twice"));
  test::write_all(folder / "m/config.json", "{}");
  std::filesystem::remove(folder / "m/model.safetensors");
  CHECK(test::contains(problem(), "has neither model.safetensors nor"));
}

}  // namespace hf_import_test
