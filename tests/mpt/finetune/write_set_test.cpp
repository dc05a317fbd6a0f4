#include <doctest/doctest.h>

#include <mpt/data/hash.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/write_set.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <support/golden.hpp>

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
  void check(json const& expected) const {
    for (auto const& name : {"shard.00000.mds", "index.json"})
      CHECK(mpt::data::hash_of("sha256", data_test::get_file(folder / "set" / name)) ==
            expected[name].get<std::string>());
  }
  [[nodiscard]] std::string error(mpt::tokenizer const* tokens) const {
    auto const message = data_test::message_of(
        [&] { (void)write_set(source(), {.folder = folder / "set"}, tokens); });
    auto const at = message.find(folder.path().native());
    return at == message.npos ? message : message.substr(folder.path().native().size() + 1);
  }
};

}  // namespace write_set_test

TEST_CASE("sets of turns, text and messages are streaming's, byte for byte") {
  using namespace write_set_test;
  auto const tokenizer = plain();
  row_file const prompts(golden()["prompts"]);
  auto const report = write_set(prompts.source(), {.folder = prompts.folder / "set"}, &tokenizer);
  CHECK(report.rows == golden()["prompts"].size());
  CHECK(report.rows - report.dropped == golden()["written"]["turns"]["kept"].get<std::uint64_t>());
  prompts.check(golden()["written"]["turns"]);
  row_file const text(golden()["prompts"]);
  CHECK(write_set(text.source(), {.folder = text.folder / "set"}, nullptr).dropped == 0);
  text.check(golden()["written"]["text"]);
  row_file const chats(golden()["chats"]);
  (void)write_set(chats.source(), {.folder = chats.folder / "set"}, nullptr);
  chats.check(golden()["written"]["messages"]);
}

TEST_CASE("a written set gives the examples of the rows it is made of") {
  using namespace write_set_test;
  auto const tokenizer = plain();
  for (auto const* const kind : {"prompts", "chats"}) {
    row_file const given(golden()[kind]);
    auto source = given.source();
    source.target_responses = "all";
    auto const expected = read_examples(source, tokenizer);
    for (bool const tokenised : {false, true}) {
      auto const folder = given.folder / (tokenised ? "ids" : "text");
      (void)write_set(source, {.folder = folder, .compression = "zstd"},
                      tokenised ? &tokenizer : nullptr);
      CHECK(read_examples({.folders = {folder}, .max_seq_len = 64, .target_responses = "all"},
                          tokenizer) == expected);
    }
  }
}

TEST_CASE("an error leaves nothing behind, and nothing is overwritten") {
  using namespace write_set_test;
  auto const tokenizer = plain();
  row_file const mixed(
      json::array({{{"prompt", "p"}, {"response", "r"}}, golden()["chats"][0], {{"q", 1}}}));
  CHECK(mixed.error(nullptr) ==
        "rows.jsonl:2: a conversation, where the first row is none; write the two to sets of their "
        "own");
  CHECK(data_test::contains(mixed.error(&tokenizer), "rows.jsonl:3: the row has \"q\"; expected"));
  CHECK(data_test::get_folder(mixed.folder.path()).size() == 1);
  row_file const empty(json::array({{{"prompt", "p"}, {"response", ""}}}));
  CHECK(empty.error(&tokenizer) ==
        "of 1 rows none is left to write: prompt or response is empty, or the prompt alone has "
        "max_seq_len tokens");
  data_test::put_file(empty.folder / "set/mine", "x");
  CHECK(empty.error(nullptr) == "set: holds something already; name another folder, or remove it");
}
