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

TEST_CASE("a row is two columns of text, or messages alone") {
  using namespace format_row_test;
  CHECK(std::get<turn_text>(format_row({{"prompt", "p"}, {"response", "r"}}, "f:1")) ==
        turn_text{"p", "r"});
  CHECK(std::get<turn_text>(format_row({{"prompt", "p"}, {"completion", "c"}}, "f:1")) ==
        turn_text{"p", "c"});
  CHECK(error_of({{"prompt", "p"}, {"response", "r"}, {"id", 1}}) ==
        "f:1: the row has \"id\", \"prompt\", \"response\"; expected \"prompt\" and \"response\" "
        "(or \"completion\"), or \"messages\", and nothing else; name the columns with "
        "preprocessing_fn: {prompt: COLUMN, response: COLUMN} or, to prepare, by --prompt_column "
        "COLUMN --response_column COLUMN");
  CHECK(data_test::contains(error_of({{"completion", "c"}, {"response", "r"}}), "the row has"));
  CHECK(data_test::contains(error_of({{"promt", "p"}, {"response", "r"}}),
                            "the row has \"promt\", \"response\"; expected"));
  CHECK(data_test::contains(error_of(json::object()), "the row has none; expected"));
  CHECK(error_of({{"prompt", nullptr}, {"response", "r"}}) ==
        "f:1: column \"prompt\" is of type null, expected a string");
  CHECK(data_test::contains(error_of(3), "a row of type number"));
}
