// The model that adapters were trained for: other weights are refused, copies of the same are not.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/adapted_model.hpp>
#include <parallel/support/files.hpp>

namespace adapted_model_test {

using mpt::hf::adapted_model;

TEST_CASE("adapted model: values that differ are refused, and what cannot be compared is not") {
  adapted_model const model{.base = {.name = "o/n"},
                            .checksums = {{"a", "F32 xxh3 1"}, {"b", "F16 xxh3 2"}}};
  struct found_files {
    std::map<std::string, std::string> checksums;
    bool is_same;
  };
  std::vector<found_files> const found{{{{"a", "F32 xxh3 1"}, {"b", "F16 xxh3 2"}}, true},
                                       {{{"a", "BF16 xxh3 1"}}, true},
                                       {{{"a", "BF16 xxh3 3"}}, false},
                                       {{{"a", "F32 xxh3 3"}}, false},
                                       {{{"b", "F16 xxh3 3"}}, false},
                                       {{{"b", "F32 xxh3 3"}}, true},  // F16 rounds otherwise
                                       {{{"c", "F32 xxh3 3"}}, true},
                                       {{}, true}};
  for (auto const& files : found) {
    CAPTURE(files.checksums);
    auto const message = test::message_of(
        [&] { require_same_weights(model, files.checksums, "base", "run/ep0-ba1"); });
    CHECK(message.empty() == files.is_same);
    if (!files.is_same)
      CHECK(message ==
            "run/ep0-ba1: its adapters were trained for other weights than those in "
            "base, where tensor " +
                files.checksums.begin()->first +
                " has other values; give the model as it was when they were trained");
  }
}

TEST_CASE(
    "adapted model: JSON gives it back, and what is no such JSON gives nothing but the name") {
  adapted_model const model{
      .base = {.name = "o/n"}, .folder = "/x", .checksums = {{"a", "F32 xxh3 1"}}};
  auto const copy = mpt::hf::adapted_model_of(model.to_json(), {.name = "o/n"});
  CHECK(copy.folder == model.folder);
  CHECK(copy.checksums == model.checksums);
  CHECK(adapted_model{.base = {.name = "o/n"}, .folder = "/x"}.to_json().is_null());
  for (auto const* const text : {"null", "[1]", "{\"folder\": 1, \"checksums\": {\"a\": 2}}"}) {
    auto const unknown = mpt::hf::adapted_model_of(nlohmann::json::parse(text), {.name = "o/n"});
    CHECK(unknown.base.name == "o/n");
    CHECK(unknown.folder.empty());
    CHECK(unknown.checksums.empty());
  }
}

}  // namespace adapted_model_test
