// The sampling that a model's generation_config.json recommends.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/generation_defaults.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
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

TEST_CASE("generation defaults: transformers' own apply if the file names none") {
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

TEST_CASE("generation defaults: settings that would change texts and are not followed are named") {
  test::temporary_folder const folder;
  using names = std::vector<std::string>;
  CHECK(read(folder, R"({"do_sample": true, "min_p": 0.05, "num_beams": 4, "suppress_tokens": [3],
    "no_repeat_ngram_size": 2, "max_length": 20, "length_penalty": 1, "typical_p": 1.0,
    "use_cache": false, "bad_words_ids": null, "begin_suppress_tokens": []})")
            .unfollowed ==
        names{"min_p 0.05", "no_repeat_ngram_size 2", "num_beams 4", "suppress_tokens [3]"});
  CHECK(read(folder, R"({"min_p": 0.05, "epsilon_cutoff": 0.1, "max_length": 4096})").unfollowed ==
        names{"max_length 4096"});
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

namespace text_ends_test {

using ids = std::vector<std::int32_t>;

/// The ends of a model of 300 tokens whose files have these eos_token_ids; "": no such key in
/// config.json, no generation_config.json.
mpt::text_ends ends_of(std::string const& config, std::string const& generation,
                       std::string const& tokenizer_config = "{}") {
  test::temporary_folder const folder;
  mpt::model_config model;
  model.d_model = 8;
  model.n_heads = 2;
  model.n_layers = 1;
  model.vocab_size = 300;
  model.max_seq_len = 4;
  auto json = mpt::to_hf_json(model, "float32");
  if (!config.empty()) json["eos_token_id"] = nlohmann::json::parse(config);
  mpt::hf::hf_export(folder / "m", mpt::hf::shapes_of(model),
                     [](std::string const&, parallel::index, std::span<float>) {},
                     {.type = mpt::hf::precision::fp32, .config = json});
  if (!generation.empty())
    test::write_all(folder / "m" / "generation_config.json",
                    "{\"eos_token_id\": " + generation + "}");
  mpt::tokenizer const tokenizer({.json = tokenizer_test::small_tokenizer().files().json,
                                  .config = tokenizer_config,
                                  .source = {}});
  return text_ends_of(mpt::model_source(folder / "m"), tokenizer);
}

TEST_CASE("ends of a text: generation_config.json, else config.json, else the tokenizer") {
  CHECK(ends_of("", "").tokens == ids{0});
  CHECK(ends_of("null", "null").tokens == ids{0});
  CHECK(ends_of("7", "").tokens == ids{7});
  CHECK(ends_of("[0, 40]", "").tokens == ids{0, 40});
  CHECK(ends_of("7", "[0, 40]").tokens == ids{0, 40});
  CHECK(ends_of("[0, 40]", "7").tokens == ids{7});
  CHECK(ends_of("7", "null").tokens == ids{0});  // config.json is ignored then
  CHECK(ends_of("7", "7").note.empty());
}

TEST_CASE("ends of a text: ids outside the vocabulary end nothing, and a note says so") {
  auto const outside = ends_of("50256", "");
  CHECK(outside.tokens.empty());
  CHECK(test::contains(
      outside.note,
      "m: eos_token_id 50256 is not one of the model's 300 tokens, so that it ends no "
      "text"));
  auto const negative = ends_of("[0, -1]", "");
  CHECK(negative.tokens == ids{0});
  CHECK(test::contains(negative.note, "eos_token_id -1 is not one of the model's 300 tokens"));
  auto const no_ends = ends_of("", "", R"({"eos_token": null})");
  CHECK(no_ends.tokens.empty());
  CHECK(test::contains(no_ends.note, "nothing ends a text before it is as long as allowed: "));
  CHECK(ends_of("5", "", R"({"eos_token": null})").tokens == ids{5});
}

TEST_CASE("ends of a text: a generation_config.json that is damaged is refused by its name") {
  CHECK(test::contains(test::message_of([] { static_cast<void>(ends_of("0", "\"x\"")); }),
                       "generation_config.json: eos_token_id is \"x\""));
}

}  // namespace text_ends_test
