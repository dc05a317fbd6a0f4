// The tokens that end a text, as transformers' generate finds them in a model's files.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/shapes.hpp>
#include <mpt/hf/text_ends.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <parallel/support/files.hpp>

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
  CHECK(
      test::contains(outside.note,
                     "m: eos_token_id 50256 is none of the model's 300 tokens, so that it ends no "
                     "text"));
  auto const negative = ends_of("[0, -1]", "");
  CHECK(negative.tokens == ids{0});
  CHECK(test::contains(negative.note, "eos_token_id -1 is none of the model's 300 tokens"));
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
