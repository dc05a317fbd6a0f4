#include <doctest/doctest.h>

#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/mds_rows.hpp>
#include <string>
#include <vector>

namespace mds_rows_test {

using nlohmann::json;
using namespace mpt::finetune;
using mpt::data::mds_column;

/// An MDS set of one sample with these columns (in name order) and values.
struct sample_set {
  data_test::scratch_folder folder;
  mpt::data::mds_reader reader;

  sample_set(std::vector<mds_column> columns, std::vector<std::string> const& values)
      : reader(write(std::move(columns), values)) {}

  std::filesystem::path write(std::vector<mds_column> columns,
                              std::vector<std::string> const& values) const {
    mpt::data::mds_writer writer(folder / "s", {.columns = std::move(columns)});
    std::vector<std::string_view> const views(values.begin(), values.end());
    (void)writer.write(views);
    (void)writer.finish();
    return folder / "s";
  }
  [[nodiscard]] std::string error(id_options const& options = {}) const {
    auto const message = data_test::message_of([&] { (void)turns_of(reader.sample(0), options); });
    auto const begin = message.find("sample 0");
    return begin == message.npos ? message : message.substr(begin);
  }
};

template <class Number>
std::string bytes_of(std::vector<Number> const& values) {
  std::string out;
  for (auto const value : values) mpt::data::detail::store(out, value);
  return out;
}

}  // namespace mds_rows_test

TEST_CASE("MDS rows: tokenised turns are JSON, arrays or raw bytes") {
  using namespace mds_rows_test;
  sample_set const turns(
      {{"turns", "json"}},
      {R"([{"input_ids": [1, 2], "labels": [3]}, {"input_ids": [4], "labels": []}])"});
  CHECK(*turns_of(turns.reader.sample(0), {}) == std::vector<turn>{{{1, 2}, {3}}, {{4}, {}}});
  sample_set const raw({{"input_ids", "bytes"}, {"labels", "bytes"}},
                       {bytes_of<std::int64_t>({1, 2, 3}), bytes_of<std::int64_t>({4, 5})});
  CHECK(*turns_of(raw.reader.sample(0), {}) == std::vector<turn>{{{1, 2, 3}, {4, 5}}});
  CHECK(*turns_of(raw.reader.sample(0), {.max_ids = 2}) == std::vector<turn>{{{1, 2}, {4, 5}}});
  sample_set const arrays({{"input_ids", "ndarray:uint16:2"}, {"labels", "ndarray:int32:1"}},
                          {bytes_of<std::uint16_t>({1, 65535}), bytes_of<std::int32_t>({7})});
  CHECK(*turns_of(arrays.reader.sample(0), {}) == std::vector<turn>{{{1, 65535}, {7}}});
}

TEST_CASE("MDS rows: text columns become a row") {
  using namespace mds_rows_test;
  sample_set const text(
      {{"messages", "json"}, {"n", "int"}, {"prompt", "str"}, {"response", "bytes"}},
      {"[1]", std::string(8, '\0'), "p", "r"});
  CHECK(!turns_of(text.reader.sample(0), {}));
  CHECK(text_row(text.reader.sample(0)) ==
        json{{"messages", {1}}, {"n", nullptr}, {"prompt", "p"}, {"response", "r"}});
  sample_set const broken({{"prompt", "str"}}, {"\xFF"});
  CHECK(data_test::contains(data_test::message_of([&] { (void)text_row(broken.reader.sample(0)); }),
                            "sample 0: column \"prompt\" is not UTF-8"));
}

TEST_CASE("MDS rows: invalid ids are an error that names the sample") {
  using namespace mds_rows_test;
  auto const turns = [](char const* text) { return sample_set({{"turns", "json"}}, {text}); };
  CHECK(turns("3").error() ==
        "sample 0: \"turns\" is of type number, expected a list of {\"input_ids\": [...], "
        "\"labels\": [...]}");
  CHECK(turns("[{\"input_ids\": [1]}]").error() == "sample 0: lacks \"labels\"");
  CHECK(turns("[{\"input_ids\": 1, \"labels\": []}]").error() ==
        "sample 0: \"input_ids\" is of type number, expected a list of ids");
  CHECK(turns("[{\"input_ids\": [5, -1], \"labels\": []}]").error() ==
        "sample 0: \"input_ids\" holds -1 at 1; expected an id from 0 to 2147483647: the set was "
        "prepared with another tokenizer");
  CHECK(turns("[{\"input_ids\": [5], \"labels\": [90]}]").error({.vocab_size = 90}) ==
        "sample 0: \"labels\" holds 90 at 0; expected an id from 0 to 89: the set was prepared "
        "with another tokenizer");
  CHECK(sample_set({{"input_ids", "bytes"}}, {""}).error() ==
        "sample 0: has \"input_ids\" but no \"labels\"; expected both");
  CHECK(sample_set({{"input_ids", "bytes"}, {"labels", "bytes"}}, {"12345", ""}).error() ==
        "sample 0: 5 bytes of \"input_ids\" are not a whole number of int64 ids; set "
        "token_encoding_type to what the set was written with");
  CHECK(sample_set({{"input_ids", "str"}, {"labels", "bytes"}}, {"12345", ""}).error() ==
        "sample 0: column \"input_ids\" has encoding \"str\", expected an array of ids");
  CHECK(
      sample_set({{"input_ids", "ndarray:float32:1"}, {"labels", "bytes"}}, {"1234", ""}).error() ==
      "sample 0: column \"input_ids\" holds float32, expected integers");
}
