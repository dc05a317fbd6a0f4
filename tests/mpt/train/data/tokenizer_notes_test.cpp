#include <doctest/doctest.h>

#include <string>

#include <mpt/data/records.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/train/data/tokenizer_notes.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/support/files.hpp>

namespace tokenizer_notes_test {

TEST_CASE(
    "tokenizer notes: they name data of another tokenizer, and one without end-of-text token") {
  test::temporary_folder const folder;
  auto const words = tokenizer_test::small_tokenizer();
  words.save(folder / "words");
  mpt::tokenizer const endless({.json = words.files().json + " ",
                                .config = R"({"tokenizer_class": "PreTrainedTokenizerFast"})",
                                .source = {}});
  endless.save(folder / "endless");
  std::filesystem::create_directories(folder / "set/train");
  test::write_all(
      folder / "set/train/prepare.json",
      "{\"parameters\": {\"tokenizer\": \"" + parallel::hexadecimal(words.fingerprint()) + "\"}}");
  mpt::train_config config;
  config.data.train_loader.streams.push_back({.local = folder / "set"});
  config.data.train_loader.streams.back().split = "train";
  for (auto const& name : {std::string("gpt2"), std::string(), (folder / "set").string(),
                           (folder / "words").string()}) {
    CAPTURE(name);
    config.data.tokenizer.name = name;
    CHECK(mpt::tokenizer_notes(config.data).empty());
  }
  config.data.eval_loaders.push_back(config.data.train_loader);
  config.data.tokenizer.name = folder / "endless";
  auto const notes = mpt::tokenizer_notes(config.data);
  REQUIRE(notes.size() == 3);
  CHECK(test::contains(notes[0], "set/train was made with another tokenizer than "));
  CHECK(notes[1] == notes[0]);
  CHECK(test::contains(notes[2],
                       "endless has no end-of-text token (tokenizer_config.json names no "
                       "eos_token): texts that models exported with it write never end"));
}

}  // namespace tokenizer_notes_test
