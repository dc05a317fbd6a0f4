// The sampling that a model's generation_config.json recommends.
#include <string>

#include <doctest/doctest.h>

#include <mpt/hf/generation_defaults.hpp>
#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>

namespace generation_defaults_test {

mpt::generation_defaults read(test::temporary_folder const& folder, std::string const& json) {
  parallel::replace_text_file(folder / "generation_config.json", json);
  return mpt::read_generation_defaults(folder.path());
}

TEST_CASE("generation defaults: Qwen's file samples as it says") {
  test::temporary_folder const folder;
  auto const found = read(folder, R"({"do_sample": true, "temperature": 0.7, "top_p": 0.8,
    "top_k": 20, "repetition_penalty": 1.05, "eos_token_id": [151645, 151643]})");
  CHECK(found.temperature == 0.7);
  CHECK(found.top_p == 0.8);
  CHECK(found.top_k == 20);
  CHECK(found.repetition_penalty == 1.05);
}

TEST_CASE("generation defaults: transformers' own stand where the file names none") {
  test::temporary_folder const folder;
  auto const found = read(folder, R"({"do_sample": true})");
  CHECK(found.temperature == 1.0);
  CHECK(found.top_k == 50);
  CHECK_FALSE(found.top_p.has_value());
}

TEST_CASE("generation defaults: without do_sample a temperature has no effect") {
  test::temporary_folder const folder;
  CHECK_FALSE(read(folder, R"({"temperature": 0.6})").temperature.has_value());
  CHECK_FALSE(read(folder, R"({"do_sample": false, "top_p": 0.9})").top_p.has_value());
  test::temporary_folder const empty;
  CHECK_FALSE(mpt::read_generation_defaults(empty.path()).repetition_penalty.has_value());
}

TEST_CASE("generation defaults: another type is refused by the field's name") {
  test::temporary_folder const folder;
  auto const file = (folder / "generation_config.json").string();
  CHECK(test::message_of([&] {
          (void)read(folder, R"({"do_sample": true, "temperature": "warm"})");
        }) == file + ": temperature: expected a number, found \"warm\"");
  CHECK(test::message_of([&] { (void)read(folder, R"({"do_sample": true, "top_k": -1})"); }) ==
        file + ": top_k: expected a whole number from 0 on, found -1");
}

}  // namespace generation_defaults_test
