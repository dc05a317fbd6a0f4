#include <doctest/doctest.h>

#include <mpt/data/hash.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/write_set.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <support/golden/golden.hpp>

namespace write_set_test {

using nlohmann::json;
using namespace mpt::finetune;

inline json const& golden() {
  static json const read =
      json::parse(data_test::get_file(test::golden_folder() / "finetuning.json"));
  return read;
}

inline mpt::tokenizer plain() {
  return mpt::tokenizer({.json = golden()["tokenizer"].dump(),
                         .config = golden()["tokenizers"]["plain"]["config"].dump(),
                         .source = {}});
}

struct row_file {
  data_test::scratch_folder folder;

  explicit row_file(json const& list) {
    std::string text;
    for (auto const& row : list) text += row.dump() + "\n";
    data_test::put_file(folder / "rows.jsonl", text);
  }
  [[nodiscard]] finetuning_source source() const {
    return {.files = {folder / "rows.jsonl"}, .max_seq_len = 64};
  }
  void check_set(json const& expected) const {
    for (auto const& name : {"shard.00000.mds", "index.json"})
      CHECK(mpt::data::hash_of("sha256", data_test::get_file(folder / "set" / name)) ==
            expected[name].get<std::string>());
  }
  [[nodiscard]] std::string error(mpt::tokenizer const* tokenizer) const {
    auto const message = data_test::message_of(
        [&] { (void)write_set(source(), {.folder = folder / "set"}, tokenizer); });
    auto const begin = message.find(folder.path().native());
    return begin == message.npos ? message : message.substr(folder.path().native().size() + 1);
  }
};

}  // namespace write_set_test

TEST_CASE("write_set: sets of turns, text and messages equal those of streaming in every byte") {
  using namespace write_set_test;
  auto const tokenizer = plain();
  row_file const prompts(golden()["prompts"]);
  auto const report = write_set(prompts.source(), {.folder = prompts.folder / "set"}, &tokenizer);
  CHECK(report.rows == golden()["prompts"].size());
  CHECK(report.rows - report.dropped == golden()["written"]["turns"]["kept"].get<std::uint64_t>());
  prompts.check_set(golden()["written"]["turns"]);
  row_file const text(golden()["prompts"]);
  CHECK(write_set(text.source(), {.folder = text.folder / "set"}, nullptr).dropped == 0);
  text.check_set(golden()["written"]["text"]);
  row_file const chats(golden()["chats"]);
  (void)write_set(chats.source(), {.folder = chats.folder / "set"}, nullptr);
  chats.check_set(golden()["written"]["messages"]);
}

TEST_CASE("write_set: a written set gives the same examples as its source") {
  using namespace write_set_test;
  auto const tokenizer = plain();
  for (auto const* const rows_name : {"prompts", "chats"}) {
    row_file const file(golden()[rows_name]);
    auto source = file.source();
    source.target_responses = "all";
    auto const expected = read_examples(source, tokenizer);
    for (bool const tokenised : {false, true}) {
      auto const folder = file.folder / (tokenised ? "ids" : "text");
      (void)write_set(source, {.folder = folder, .compression = "zstd"},
                      tokenised ? &tokenizer : nullptr);
      CHECK(read_examples({.folders = {folder}, .max_seq_len = 64, .target_responses = "all"},
                          tokenizer) == expected);
    }
  }
}

TEST_CASE("write_set: an error leaves no files behind, and a filled folder is not overwritten") {
  using namespace write_set_test;
  auto const tokenizer = plain();
  row_file const mixed(
      json::array({{{"prompt", "p"}, {"response", "r"}}, golden()["chats"][0], {{"q", 1}}}));
  CHECK(
      mixed.error(nullptr) ==
      "rows.jsonl:2: a conversation, but the first row is not one; write the two to separate sets");
  CHECK(data_test::contains(mixed.error(&tokenizer), "rows.jsonl:3: the row has \"q\"; expected"));
  CHECK(data_test::get_folder(mixed.folder.path()).size() == 1);
  row_file const empty(json::array({{{"prompt", "p"}, {"response", ""}}}));
  CHECK(empty.error(&tokenizer) ==
        "of 1 rows none is left to write: prompt or response is empty, or the prompt alone has "
        "max_seq_len tokens");
  data_test::put_file(empty.folder / "set/mine", "x");
  CHECK(empty.error(nullptr) == "set: holds something already; name another folder, or remove it");
}
