#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/data/token_dataset.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace token_dataset_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::mds_type;
using mpt::data::token_dataset;

/// A set with one sample of `values` in an encoding.
template <class Number>
void make_set(std::filesystem::path const& folder, std::string const& encoding,
              std::vector<Number> const& values) {
  mpt::data::mds_writer writer(folder, {{{"tokens", encoding}}, "", {}, 1 << 20});
  std::string bytes;
  if (encoding == "bytes")
    bytes.assign(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(Number));
  else
    mpt::data::mds_encoding::parse(encoding).encode_array(
        bytes, std::span<Number const>(values), std::vector<std::uint64_t>{values.size()});
  std::string_view const columns[] = {bytes};
  (void)writer.write(columns);
  writer.finish();
}

inline std::vector<std::int32_t> read(std::filesystem::path const& folder,
                                      mpt::data::token_dataset_options const& options) {
  token_dataset const set(folder, options);
  std::vector<std::int32_t> out(options.sequence_length);
  set.sample(0, out);
  return out;
}

template <class Number>
void check(std::string const& encoding, mds_type raw = mds_type::int64) {
  data_test::scratch_folder const folder;
  make_set<Number>(folder.path(), encoding, {5, 0, 255, 7});
  CHECK(read(folder.path(), {.sequence_length = 4, .raw_type = raw}) ==
        std::vector<std::int32_t>{5, 0, 255, 7});
  CHECK(read(folder.path(), {.sequence_length = 2, .raw_type = raw}) ==
        std::vector<std::int32_t>{5, 0});
}

}  // namespace token_dataset_test

TEST_CASE("token dataset: ids are read from arrays of every integer type and from raw bytes") {
  using namespace token_dataset_test;
  check<std::int32_t>("ndarray:int32");
  check<std::int32_t>("ndarray");
  check<std::int32_t>("ndarray:int32:4");
  check<std::int64_t>("ndarray:int64");
  check<std::uint16_t>("ndarray:uint16");
  check<std::uint32_t>("ndarray:uint32");
  check<std::uint64_t>("ndarray");
  check<std::uint8_t>("ndarray:uint8");
  check<std::int16_t>("ndarray");
  check<std::int64_t>("bytes");
  check<std::int32_t>("bytes", mds_type::int32);
  check<std::uint16_t>("bytes", mds_type::uint16);
}

TEST_CASE("token dataset: impossible samples and ids are refused, naming shard and sample") {
  using namespace token_dataset_test;
  data_test::scratch_folder const folder;
  auto const error = [&](mpt::data::token_dataset_options const& options) {
    return message_of([&] { (void)read(folder.path(), options); });
  };
  make_set<std::int32_t>(folder.path(), "ndarray:int32", {1, 2, 300});
  auto const is_short = error({.sequence_length = 4});
  CHECK(
      contains(is_short, "shard.00000.mds, sample 0: has 3 ids, fewer than the sequence length 4"));
  CHECK(contains(is_short, "--concat_tokens"));
  CHECK(contains(error({.sequence_length = 3, .vocab_size = 300}),
                 "id 300 at position 2 is not below the vocabulary size 300"));
  CHECK(error({.sequence_length = 2, .vocab_size = 300}) == "");
  CHECK(contains(error({.sequence_length = 2, .column = "text"}),
                 ": has no column 'text' of token ids; it has 'tokens': name a set that prepare "
                 "made of text"));
  CHECK(contains(error({.sequence_length = 0}), "must be positive"));
  CHECK(contains(error({.sequence_length = 2, .split = "train"}), "train/index.json: not found"));

  make_set<std::int32_t>(folder.path(), "ndarray:int32", {1, -2});
  CHECK(contains(error({.sequence_length = 2}), "id -2"));
  make_set<std::uint64_t>(folder.path(), "ndarray", {~std::uint64_t{0}});
  CHECK(contains(error({.sequence_length = 1}), "id 18446744073709551615"));
  make_set<float>(folder.path(), "ndarray", {1});
  CHECK(contains(error({.sequence_length = 1}), "type float32"));
  make_set<std::int32_t>(folder.path(), "bytes", {1, 2, 3});
  CHECK(contains(error({.sequence_length = 1}), "not a whole number of int64"));
}

TEST_CASE("token dataset: a set of texts is refused on opening, with advice") {
  using namespace token_dataset_test;
  data_test::scratch_folder const folder;
  mpt::data::mds_writer writer(folder.path(), {{{"tokens", "str"}}, "", {}, 1 << 20});
  std::string_view const text[] = {"x"};
  (void)writer.write(text);
  writer.finish();
  CHECK(contains(message_of([&] { token_dataset(folder.path(), {}); }), "with prepare"));
}

TEST_CASE("token dataset: the error for a set of texts names its folder and the program to run") {
  using namespace token_dataset_test;
  data_test::scratch_folder const folder;
  mpt::data::mds_writer writer(folder.path(), {{{"text", "str"}}, "", {}, 1 << 20});
  std::string_view const text[] = {"x"};
  (void)writer.write(text);
  writer.finish();
  CHECK(message_of([&] { token_dataset(folder.path(), {}); }) ==
        folder.path().native() +
            ": has no column 'tokens' of token ids; it has 'text': training does not tokenise "
            "text; make a set of ids from the original files: prepare --tokenizer FOLDER "
            "--concat_tokens N --out_root NEW_SET FILES");
}

TEST_CASE("token dataset: for ids as raw bytes the error names another type that fits") {
  using namespace token_dataset_test;
  data_test::scratch_folder const folder;
  auto const error = [&](std::uint64_t length, mds_type type) {
    return message_of([&] {
      (void)read(folder.path(), {.sequence_length = length, .raw_type = type, .vocab_size = 4096});
    });
  };
  make_set<std::int32_t>(folder.path(), "bytes", {9, 8, 7, 6, 5, 4, 3, 2});
  auto const as_int32 = "; as int32 they are 8 ids below 4096: set token_encoding_type to int32";
  CHECK(error(8, mds_type::int64)
            .ends_with(parallel::concat(
                "sample 0: has 4 ids of type int64, fewer than the sequence length 8", as_int32)));
  CHECK(error(4, mds_type::int64).ends_with(as_int32));  // both ids are too large
  CHECK(error(8, mds_type::int32) == "");
  make_set<std::uint16_t>(folder.path(), "bytes", {4095, 8, 7, 6, 5, 4, 3, 2});
  CHECK(error(8, mds_type::int64).ends_with("set token_encoding_type to uint16"));
  make_set<std::int64_t>(folder.path(), "bytes", {9, 8, 7, 6, 5, 4, 3, 2});
  CHECK(error(8, mds_type::int32)
            .ends_with("sample 0: every second id of type int32 is 0, like the upper halves of ids "
                       "of a wider type; as int64 they are 8 ids below 4096: set "
                       "token_encoding_type to int64"));
  CHECK(error(8, mds_type::int64) == "");
  CHECK(error(9, mds_type::int64).ends_with("prepare the data again with more --concat_tokens"));
}
