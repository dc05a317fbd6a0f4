#include <string>

#include <doctest/doctest.h>

#include <mpt/data/records.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/write_set.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace tokenizer_record_test {

using data_test::contains;
using data_test::put_file;
using mpt::data::other_tokenizer_note;
using mpt::data::tokenizer_of_set;

std::string record_of(std::string const& fingerprint) {
  return "{\"parameters\": {\"tokenizer\": \"" + fingerprint + "\"}}";
}

TEST_CASE("set tokenizer: is read from the record of the set or of one of its parts") {
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

TEST_CASE("parameters record: files are identified by name, size and both ends, in order") {
  using mpt::data::file_identities;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a/x.txt", "text");
  data_test::put_file(folder / "b/x.txt", "text");
  data_test::put_file(folder / "y.txt", std::string(300000, 'y'));
  auto const identities = file_identities({folder / "a/x.txt", folder / "y.txt"});
  REQUIRE(identities.size() == 2);
  CHECK(identities[0].get<std::string>().starts_with("x.txt, 4 bytes, ends "));
  CHECK(file_identities({folder / "b/x.txt"})[0] == identities[0]);  // a folder may be moved
  CHECK(file_identities({folder / "y.txt", folder / "a/x.txt"}) != identities);
  for (std::size_t const position : {std::size_t{0}, std::size_t{299999}}) {
    std::string text(300000, 'y');
    text[position] = 'z';
    data_test::put_file(folder / "y.txt", text);
    CHECK(file_identities({folder / "y.txt"})[0] != identities[1]);
  }
}

TEST_CASE(
    "parameters record: differing parameters are named, and of lists the first differing file") {
  using mpt::data::parameter_differences;
  nlohmann::json const recorded{{"size", 3}, {"inputs", {"a", "b", "c"}}, {"old", true}};
  auto const difference = [&](char const* key, nlohmann::json const& value) {
    auto current = recorded;
    current[key] = value;
    return parameter_differences(recorded, current, "f");
  };
  CHECK(parameter_differences(recorded, recorded, "f").empty());
  CHECK(parameter_differences(recorded, {{"size", 3}}, "f")
            .empty());  // a parameter that only the record has does not count
  CHECK(difference("size", 4) == "\n  size: was 3, now 4");
  CHECK(difference("new", 1) == "\n  new: was null, now 1");
  CHECK(difference("inputs", {"a", "c", "b"}) == "\n  inputs: file 2 was \"b\", now \"c\"");
  CHECK(difference("inputs", {"a", "b"}) == "\n  inputs: were 3 files, now 2");
  CHECK(data_test::message_of([&] { (void)parameter_differences(3, recorded, "f"); }) ==
        "f: the record of parameters is damaged");
}
