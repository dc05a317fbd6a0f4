#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/format_row.hpp>

namespace format_row_test {

using nlohmann::json;
using namespace mpt::finetune;

inline std::string error_of(json const& row) {
  return data_test::message_of([&] { (void)format_row(row, "f:1"); });
}

}  // namespace format_row_test

TEST_CASE("row format: a row is two columns of text, or messages alone") {
  using namespace format_row_test;
  CHECK(std::get<turn_text>(format_row({{"prompt", "p"}, {"response", "r"}}, "f:1")) ==
        turn_text{"p", "r"});
  CHECK(std::get<turn_text>(format_row({{"prompt", "p"}, {"completion", "c"}}, "f:1")) ==
        turn_text{"p", "c"});
  CHECK(data_test::contains(error_of({{"completion", "c"}, {"response", "r"}}), "the row has"));
  CHECK(data_test::contains(error_of(json::object()), "the row has none; expected"));
  CHECK(error_of({{"prompt", nullptr}, {"response", "r"}}) ==
        "f:1: column \"prompt\" is of type null, expected a string");
  CHECK(data_test::contains(error_of(3), "a row of type number"));
}

TEST_CASE("row format: the error for another form says how such rows are read") {
  using namespace format_row_test;
  using data_test::contains;
  auto const chat =
      json::parse(R"({"id": "1", "conversations": [{"from": "human", "value": "a"}]})");
  CHECK(error_of(chat).ends_with(
      "and nothing else; conversations of \"from\" and \"value\" (ShareGPT) are read with "
      "preprocessing_fn: teknium/OpenHermes-2.5 or, by prepare, --preprocessor "
      "teknium/OpenHermes-2.5"));
  for (auto const* ids : {R"({"input_ids": [1, 2], "labels": [3]})", R"({"tokens": [1]})",
                          R"({"ids": [1]})", R"({"turns": [{"input_ids": [1], "labels": [2]}]})"})
    CHECK(error_of(json::parse(ids))
              .ends_with("and nothing else; rows of token ids are read from MDS sets alone: give "
                         "the text, or the set that prepare --finetuning --tokenizer made of it, "
                         "by dataset.local"));
  CHECK(error_of({{"messages", json::array()}, {"source", "x"}})
            .ends_with("are read with preprocessing_fn: AI-MO/NuminaMath-CoT or, by prepare, "
                       "--preprocessor AI-MO/NuminaMath-CoT"));
  CHECK(contains(error_of({{"text", "x"}}),
                 "prepare makes a set of it, for a loader with name: text"));
  CHECK(contains(error_of({{"tokens", "words"}, {"answer", "x"}}), "name the columns with"));
}
