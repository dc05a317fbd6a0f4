#include <doctest/doctest.h>

#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/read_examples.hpp>
#include <mpt/finetune/write_set.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <vector>

namespace read_examples_test {

using namespace mpt::finetune;
using ids = std::vector<std::int32_t>;

inline constexpr char const* four_rows =
    "{\"prompt\": \"The fox\", \"response\": \" the dog\"}\n"
    "{\"prompt\": \"The fox\", \"response\": \"\"}\n"
    "{\"prompt\": \"The fox the fox\", \"response\": \"x\"}\n"
    "{\"response\": \"xyz xyz\", \"prompt\": \" dog\"}\n";

}  // namespace read_examples_test

TEST_CASE("read_examples: rows of prompts and responses become examples in their order") {
  using namespace read_examples_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.jsonl", four_rows);
  auto const tokenizer = tokenizer_test::small_tokenizer();
  read_report report;
  auto const examples =
      read_examples({.files = {folder / "a.jsonl"}, .max_seq_len = 6}, tokenizer, &report);
  REQUIRE(examples.size() == 2);
  CHECK(tokenizer.decode(examples[0].ids) == "The fox the dog<|endoftext|>");
  CHECK(examples[0].ids == ids{272, 284, 88, 259, 289, 0});
  CHECK(examples[0].labels == ids{-100, -100, 259, 289, 0, -100});
  CHECK(tokenizer.decode(examples[1].ids) == " dogxyz x");
  CHECK(report.rows == 4);
  CHECK(report.dropped == 2);    // a row without a response, and one whose prompt fills the row
  CHECK(report.truncated == 1);  // the last row, which is longer than 6
}

TEST_CASE("read_examples: files, text columns and turns of MDS sets give the same examples") {
  using namespace read_examples_test;
  data_test::scratch_folder const folder;
  auto const tokenizer = tokenizer_test::small_tokenizer();
  data_test::put_file(folder / "a.csv", "q,a\nThe fox, the dog\n");
  mpt::data::mds_writer text(folder / "text",
                             {.columns = {{"prompt", "str"}, {"response", "str"}}});
  (void)text.write(std::vector<std::string_view>{"The fox", " the dog"});
  (void)text.finish();
  mpt::data::mds_writer turns(folder / "turns", {.columns = {{"turns", "json"}}});
  (void)turns.write(
      std::vector<std::string_view>{R"([{"input_ids": [272, 284, 88], "labels": [259, 289]}])"});
  (void)turns.finish();
  auto const from_text = read_examples({.folders = {folder / "text"}}, tokenizer);
  CHECK(from_text.at(0).ids == ids{272, 284, 88, 259, 289, 0});
  CHECK(read_examples({.folders = {folder / "turns"}}, tokenizer) == from_text);
  CHECK(read_examples({.files = {folder / "a.csv"}, .preprocess = column_mapping("q", "a")},
                      tokenizer) == from_text);
}

TEST_CASE("read_examples: a tokenizer without an end-of-text token is refused") {
  using namespace read_examples_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.jsonl", four_rows);
  auto const json = tokenizer_test::small_tokenizer().files().json;
  for (char const* const config :
       {R"({"tokenizer_class": "PreTrainedTokenizerFast"})", R"({"eos_token": null})"}) {
    CAPTURE(config);
    mpt::tokenizer const tokenizer({.json = json, .config = config, .source = {}});
    CHECK(data_test::contains(data_test::message_of([&] {
                                (void)read_examples({.files = {folder / "a.jsonl"}}, tokenizer);
                              }),
                              "tokenizer.json: has no end-of-text token ("));
    CHECK(data_test::contains(data_test::message_of([&] {
                                (void)write_set({.files = {folder / "a.jsonl"}},
                                                {.folder = folder / "set"}, &tokenizer);
                              }),
                              "tokenizer.json: has no end-of-text token ("));
    CHECK_FALSE(std::filesystem::exists(folder / "set"));
  }
}

TEST_CASE("read_examples: data without trainable rows or with unknown columns are an error") {
  using namespace read_examples_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.jsonl", "{\"prompt\": \"The fox\", \"response\": \"\"}\n");
  data_test::put_file(folder / "b.jsonl", "{\"prompt\": \"x\", \"response\": \"y\"}\n{\"q\": 1}\n");
  auto const tokenizer = tokenizer_test::small_tokenizer();
  CHECK(data_test::message_of(
            [&] { (void)read_examples({.files = {folder / "a.jsonl"}}, tokenizer); }) ==
        "none of 1 rows of finetuning data can be trained on: prompt or response is empty, or "
        "the prompt alone has max_seq_len (2048) tokens");
  CHECK(data_test::contains(data_test::message_of([&] {
                              (void)read_examples({.files = {folder / "b.jsonl"}}, tokenizer);
                            }),
                            "b.jsonl:2: the row has \"q\"; expected \"prompt\" and \"response\""));
}
