#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <mpt/config/model/token_ids.hpp>
#include <parallel/support/files.hpp>

namespace token_ids_test {

TEST_CASE("token ids: a number or a list, also beyond the vocabulary; anything else is refused") {
  using ids = std::vector<std::int64_t>;
  auto const read = [](char const* value) {
    auto const json = nlohmann::json::parse(std::string("{\"eos_token_id\": ") + value + "}");
    return mpt::read_token_ids(json, "eos_token_id", "c.json");
  };
  CHECK(mpt::read_token_ids(nlohmann::json::object(), "eos_token_id", "c.json").empty());
  CHECK(read("null").empty());
  CHECK(read("[]").empty());
  CHECK(read("0") == ids{0});
  CHECK(read("[0, 400]") == ids{0, 400});
  CHECK(read("50256") == ids{50256});
  CHECK(read("[0, -1]") == ids{0, -1});
  for (char const* const bad : {"\"0\"", "0.5", "true", "{}", "[[0]]", "[null]", "4294967296",
                                "18446744073709551615", "[0, 9223372036854775808]"}) {
    CAPTURE(bad);
    CHECK(test::contains(test::message_of([&] { static_cast<void>(read(bad)); }),
                         "c.json: eos_token_id is "));
  }
  CHECK(test::message_of([&] { static_cast<void>(read("\"0\"")); }) ==
        "c.json: eos_token_id is \"0\"; expected a token's number, or a list of them");
  nlohmann::json const many{{"eos_token_id", std::vector<int>(1025, 1)}};
  CHECK(test::message_of(
            [&] { static_cast<void>(mpt::read_token_ids(many, "eos_token_id", "c.json")); }) ==
        "c.json: eos_token_id names 1025 tokens; expected a token's number, or a list of 1024 at "
        "most");
}

}  // namespace token_ids_test
