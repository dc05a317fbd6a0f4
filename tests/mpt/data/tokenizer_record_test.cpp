#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/data/tokenizer_record.hpp>
#include <mpt/finetune/write_set.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <string>

namespace tokenizer_record_test {

using data_test::contains;
using data_test::put_file;
using mpt::data::other_tokenizer_note;
using mpt::data::tokenizer_of_set;

std::string record_of(std::string const& fingerprint) {
  return "{\"parameters\": {\"tokenizer\": \"" + fingerprint + "\"}}";
}

TEST_CASE("set tokenizer: it is read from the record of the set or of one of its parts") {
  data_test::scratch_folder const folder;
  CHECK_FALSE(tokenizer_of_set(folder / "nowhere").has_value());
  CHECK_FALSE(tokenizer_of_set(folder.path()).has_value());
  for (char const* const other : {"", "[]", "{}", "{\"parameters\": 3}", "{\"parameters\": {}}"}) {
    CAPTURE(other);
    put_file(folder / "prepare.json", other);
    CHECK_FALSE(tokenizer_of_set(folder.path()).has_value());
  }
  put_file(folder / "part-00001-of-00002/prepare.json", record_of("2"));
  CHECK(tokenizer_of_set(folder.path()) == "2");
  put_file(folder / "prepare.json", record_of("1"));
  CHECK(tokenizer_of_set(folder.path()) == "1");
}

TEST_CASE("set tokenizer: the note appears for another tokenizer, not for an unknown one") {
  data_test::scratch_folder const folder;
  auto const words = tokenizer_test::small_tokenizer();
  words.save(folder / "words");
  auto const other = tokenizer_test::changed_tokenizer([](auto& json) { json["more"] = 1; });
  other.save(folder / "other");
  put_file(folder / "set/prepare.json", record_of(parallel::hexadecimal(words.fingerprint())));
  CHECK(other_tokenizer_note(folder / "set", folder / "words").empty());
  CHECK(other_tokenizer_note(folder / "set", folder / "words/tokenizer.json").empty());
  CHECK(contains(other_tokenizer_note(folder / "set", folder / "other"),
                 "set was made with another tokenizer than "));
  CHECK(other_tokenizer_note(folder / "set", "").empty());
  CHECK(other_tokenizer_note(folder / "set", folder / "nowhere").empty());
  CHECK(other_tokenizer_note(folder / "words", folder / "other").empty());

  put_file(folder / "rows.jsonl", "{\"prompt\": \"The fox\", \"response\": \" the dog\"}\n");
  (void)mpt::finetune::write_set({.files = {folder / "rows.jsonl"}}, {.folder = folder / "turns"},
                                 &words);
  CHECK(other_tokenizer_note(folder / "turns", folder / "words").empty());
  CHECK(contains(other_tokenizer_note(folder / "turns", folder / "other"), "another tokenizer"));
}

}  // namespace tokenizer_record_test
