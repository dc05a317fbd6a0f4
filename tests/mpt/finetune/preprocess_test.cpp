#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/preprocess.hpp>
#include <string>

namespace preprocess_test {

using data_test::message_of;
using nlohmann::json;
using namespace mpt::finetune;

inline std::string error_of(std::string const& name, json const& row) {
  return message_of([&] { (void)named_preprocessor(name)(row, "f:1"); });
}

}  // namespace preprocess_test

TEST_CASE("preprocessing: a mapping reads only the columns that it names") {
  using namespace preprocess_test;
  auto const convert = column_mapping("question", "answer");
  CHECK(convert({{"question", "Q"}, {"answer", "A"}, {"id", 1}}, "f:1") ==
        json{{"prompt", "Q"}, {"response", "A"}});
  CHECK(message_of([&] {
          (void)convert({{"question", "Q"}, {"anser", "A"}}, "f:1");
        }) == "f:1: there is no column \"answer\"; the row has \"anser\", \"question\"");
  CHECK(message_of([&] {
          (void)convert({{"question", 3}, {"answer", "A"}}, "f:1");
        }) == "f:1: column \"question\" is of type number, expected a string");
}

TEST_CASE(
    "preprocessing: a row without the data set's columns is an error that lists its columns") {
  using namespace preprocess_test;
  CHECK(error_of("tatsu-lab/alpaca", {{"text", "no mark"}}) ==
        "f:1: expected \"### Response:\" once in \"text\", between prompt and response");
  CHECK(error_of("tatsu-lab/alpaca", {{"text", "### Response:### Response:"}}) ==
        "f:1: expected \"### Response:\" once in \"text\", between prompt and response");
  CHECK(error_of("HuggingFaceH4/databricks_dolly_15k",
                 {{"instruction", "I"}, {"context", ""}, {"response", "R"}}) ==
        "f:1: there is no column \"input\"; the row has \"context\", \"instruction\", "
        "\"response\"");
  CHECK(error_of("teknium/OpenHermes-2.5", json::object()) ==
        "f:1: there is no list \"conversations\"; the row has none");
  CHECK(error_of("teknium/OpenHermes-2.5", {{"conversations", {{{"from", "human"}}}}}) ==
        "f:1: message 1: lacks \"value\"");
  CHECK(error_of("AI-MO/NuminaMath-CoT", {{"a", 1}}) ==
        "f:1: there is no column \"messages\"; the row has \"a\"");
}

TEST_CASE("preprocessing: a Python function is refused with the command that converts the data") {
  using namespace preprocess_test;
  CHECK(!registered_preprocessor_of("mosaicml/dolly_hhrlhf"));
  CHECK(message_of([] { (void)named_preprocessor("pkg.mod:multiple_choice"); }) ==
        "preprocessing_fn \"pkg.mod:multiple_choice\" is a Python function, which is not run here; "
        "convert the data with it once and name what it writes, without preprocessing_fn: python3 "
        "-c 'import json, sys; from pkg.mod import multiple_choice as f; "
        "[print(json.dumps(dict(f(json.loads(line))))) for line in sys.stdin]' < IN.jsonl > "
        "OUT.jsonl");
  CHECK(data_test::contains(message_of([] { (void)named_preprocessor("alpaca"); }),
                            "preprocessing_fn \"alpaca\" is not known; expected tatsu-lab/alpaca"));
}
