#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mpt/tokenizer/tokenizer.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <mpt/tokenizer/small_tokenizer.hpp>

namespace tokenizer_files_test {

namespace fs = std::filesystem;
using tokenizer_test::contains;
using tokenizer_test::message_of;
using tokenizer_test::small_tokenizer;

struct scratch {
  scratch() {
    auto name = (fs::temp_directory_path() / "parallellm-tokenizer-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;
  fs::path path;
};

std::string load_error(fs::path const& path) {
  return message_of([&] { (void)mpt::tokenizer::load(path); });
}

TEST_CASE("tokenizer files: a saved tokenizer is loaded from folder or file and saved unchanged") {
  scratch const folder;
  auto const source = small_tokenizer();
  source.save(folder.path / "a/b");
  auto const from_folder = mpt::tokenizer::load(folder.path / "a/b");
  auto const from_file = mpt::tokenizer::load(folder.path / "a/b/tokenizer.json");
  for (auto const* other : {&from_folder, &from_file}) {
    CHECK(other->files().json == source.files().json);
    CHECK(other->files().config == source.files().config);
    CHECK(other->files().source == folder.path / "a/b/tokenizer.json");
    CHECK(other->encode("the lazy dog") == source.encode("the lazy dog"));
  }
  from_file.save(folder.path / "c");
  CHECK(parallel::read_text_file(folder.path / "c/tokenizer.json", mpt::largest_tokenizer_file) ==
        source.files().json);
  CHECK(parallel::read_text_file(folder.path / "c/tokenizer_config.json",
                                 mpt::largest_tokenizer_file) == source.files().config);
  for (auto const& entry : fs::directory_iterator(folder.path / "c"))
    CHECK(entry.path().extension() == ".json");  // no temporary file is left
}

TEST_CASE("tokenizer files: the configuration names eos_token, class and model_max_length") {
  auto const trained = mpt::train_tokenizer(tokenizer_test::sentences(),
                                            {.vocab_size = 290, .model_max_length = 2048});
  auto const config = nlohmann::json::parse(trained.files().config);
  CHECK(config["tokenizer_class"] == "PreTrainedTokenizerFast");
  CHECK(config["eos_token"] == "<|endoftext|>");
  CHECK(config["model_max_length"] == 2048);
  CHECK_FALSE(nlohmann::json::parse(mpt::make_tokenizer_config("", 0)).contains("eos_token"));
}

TEST_CASE("tokenizer files: added_tokens.json is read and saved as it was") {
  scratch const folder;
  small_tokenizer().save(folder.path);
  std::string const added = "{\"<x>\":   290}\n";
  std::ofstream(folder.path / "added_tokens.json") << added;
  auto const loaded = mpt::tokenizer::load(folder.path);
  CHECK(loaded.size() == 291);
  loaded.save(folder.path / "copy");
  CHECK(parallel::read_text_file(folder.path / "copy/added_tokens.json",
                                 mpt::largest_tokenizer_file) == added);
  std::ofstream(folder.path / "added_tokens.json") << "[]";
  CHECK(contains(load_error(folder.path), "added_tokens.json: must hold a JSON object"));
}

TEST_CASE("tokenizer files: a tokenizer without configuration gets one when it is saved") {
  scratch const folder;
  mpt::tokenizer const bare({.json = small_tokenizer().files().json, .config = {}, .source = {}});
  bare.save(folder.path);
  auto const config = nlohmann::json::parse(
      parallel::read_text_file(folder.path / "tokenizer_config.json", mpt::largest_tokenizer_file));
  CHECK(config["eos_token"] == "<|endoftext|>");
}

TEST_CASE("tokenizer files: tokens have the roles that transformers' AutoTokenizer finds") {
  struct case_of_role {
    std::string config, special_tokens;
    std::optional<std::string> eos, bos;
  };
  std::string const fast = R"("tokenizer_class": "PreTrainedTokenizerFast")";
  std::string const neox = R"("tokenizer_class": "GPTNeoXTokenizerFast")";
  std::string const end = "<|endoftext|>";
  std::vector<case_of_role> const cases = {
      {"", "", end, end},
      {"{}", "", end, end},
      {"{" + neox + "}", "", end, end},
      {R"({"tokenizer_class": "GPT2Tokenizer"})", "", end, end},
      {R"({"tokenizer_class": "LlamaTokenizerFast"})", "", "</s>", "<s>"},
      {R"({"tokenizer_class": "Qwen2Tokenizer"})", "", end, {}},
      {"{" + fast + "}", "", {}, {}},
      {"{" + neox + R"(, "eos_token": null})", "", {}, end},
      {"{" + fast + R"(, "eos_token": "</s>"})", "", "</s>", {}},
      {"{" + fast + R"(, "eos_token": {"content": "</s>", "lstrip": false}})", "", "</s>", {}},
      {"{" + fast + "}", R"({"eos_token": "</s>"})", "</s>", {}},
      {"{" + fast + "}", R"({"eos_token": {"content": "</s>"}, "bos_token": "<s>"})", "</s>",
       "<s>"},
      {"", R"({"eos_token": "</s>"})", "</s>", end},
      {"{" + fast + R"(, "eos_token": "a"})", R"({"eos_token": "</s>"})", "</s>", {}},
      {"{" + fast + R"(, "eos_token": "a", "added_tokens_decoder": {}})",
       R"({"eos_token": "</s>"})",
       "a",
       {}},
      {"{" + fast + R"(, "added_tokens_decoder": {"0": {"content": "</s>", "special": true}}})",
       R"({"eos_token": "</s>"})",
       {},
       {}},
      {"{" + fast + R"(, "eos_token": 5})", "", {}, {}}};
  for (auto const& test_case : cases) {
    CAPTURE(test_case.config);
    CAPTURE(test_case.special_tokens);
    mpt::tokenizer_files const files{.json = {},
                                     .config = test_case.config,
                                     .source = {},
                                     .special_tokens = test_case.special_tokens};
    CHECK(named_token(files, "eos_token") == test_case.eos);
    CHECK(named_token(files, "bos_token") == test_case.bos);
    bool const is_qwen = test_case.config.find("Qwen2") != std::string::npos;
    CHECK(named_token(files, "pad_token") == (is_qwen ? std::optional(end) : std::nullopt));
  }
}

TEST_CASE("tokenizer files: special_tokens_map.json alone may name eos_token, and is saved") {
  scratch const folder;
  mpt::tokenizer const nameless({.json = small_tokenizer().files().json,
                                 .config = R"({"tokenizer_class": "PreTrainedTokenizerFast"})",
                                 .source = {}});
  nameless.save(folder.path);
  CHECK_FALSE(mpt::tokenizer::load(folder.path).eos_id().has_value());
  std::ofstream(folder.path / "special_tokens_map.json") << R"({"eos_token": "<|endoftext|>"})";
  auto const found = mpt::tokenizer::load(folder.path);
  CHECK(found.eos_id() == 0);
  found.save(folder.path / "copy");
  CHECK(mpt::tokenizer::load(folder.path / "copy").eos_id() == 0);
  std::ofstream(folder.path / "special_tokens_map.json") << "[]";
  CHECK(contains(load_error(folder.path), "special_tokens_map.json: must hold a JSON object"));
}

TEST_CASE("tokenizer files: the error for a missing tokenizer explains what to give") {
  scratch const folder;
  CHECK(contains(load_error("EleutherAI/gpt-neox-20b"),
                 "there is no tokenizer at \"EleutherAI/gpt-neox-20b\""));
  CHECK(contains(load_error("EleutherAI/gpt-neox-20b"), "Nothing is downloaded"));
  auto const at = "the folder \"" + folder.path.string() + "\" holds no tokenizer.json; ";
  CHECK(load_error(folder.path) == at + "name a folder that has one");
  for (std::string const name : {"vocab.json", "tokenizer.model"}) {
    std::ofstream(folder.path / name) << "x";
    CHECK(load_error(folder.path) ==
          at + "its " + name +
              " becomes one by python3 -c \"from transformers import AutoTokenizer; "
              "AutoTokenizer.from_pretrained('" +
              folder.path.string() +
              "').save_pretrained('my-tokenizer')\" (with the packages transformers, "
              "sentencepiece and protobuf); then name my-tokenizer");
  }
}

TEST_CASE("tokenizer files: the error for a file that is not a tokenizer names the file") {
  scratch const folder;
  auto const file = folder.path / "tokenizer.json";
  std::ofstream(file) << "{\"model\": ";
  CHECK(contains(load_error(folder.path), file.string() + ": not valid JSON"));
  std::ofstream(file) << small_tokenizer().files().json;
  std::ofstream(folder.path / "tokenizer_config.json") << "[]";
  CHECK(contains(load_error(folder.path), "tokenizer_config.json: must hold a JSON object"));
  std::ofstream(folder.path / "plain") << "x";
  CHECK(contains(message_of([&] { small_tokenizer().save(folder.path / "plain"); }),
                 "cannot be made"));
}

}  // namespace tokenizer_files_test
