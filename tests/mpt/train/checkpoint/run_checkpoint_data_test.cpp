// A run is resumed only with the data that it was trained with, as far as its checkpoint records
// them.
#include <string>

#include <doctest/doctest.h>

#include <mpt/train/checkpoint/run_checkpoint.hpp>

#include "mpt/data/scratch.hpp"

namespace same_data_test {

/// The data that a checkpoint records: checksums of the shards' contents and of their hashes, which
/// depend on the format (compression and hash algorithms).
nlohmann::json data_order(std::string const& contents, std::string const& format,
                          std::string const& hashes) {
  return {{"seed", 1},
          {"data_checksum", "a"},
          {"data_contents", contents},
          {"data_hashes", {{"written_as", format}, {"checksum", hashes}}}};
}
std::string refusal(nlohmann::json const& saved, nlohmann::json const& current) {
  return data_test::message_of([&] { mpt::detail::require_same_order(saved, current, "ep0-ba1"); });
}

TEST_CASE("data of a resumed run: other samples or other hashes of shards are refused") {
  std::string const refused =
      "ep0-ba1: was trained with other data of train_loader (examples, their order, or the "
      "sizes or contents of shards); give the same data to continue, or take only the weights with "
      "load_weights_only=true";
  CHECK(refusal(data_order("1", "+xxh3_64", "2"), data_order("3", "+xxh3_64", "2")) == refused);
  CHECK(refusal(data_order("1", "+xxh3_64", "2"), data_order("1", "+xxh3_64", "4")) == refused);
  CHECK(refusal(data_order("1", "+xxh3_64", "2"), data_order("3", "zstd+xxh3_64", "4")) == refused);
}

TEST_CASE("data of a resumed run: another compression and older checkpoints are accepted") {
  auto const current = data_order("1", "+xxh3_64", "2");
  mpt::detail::require_same_order(current, current, "ep0-ba1");
  mpt::detail::require_same_order(data_order("1", "zstd+xxh3_64", "4"), current, "ep0-ba1");
  mpt::detail::require_same_order({{"seed", 1}, {"data_checksum", "a"}}, current, "ep0-ba1");
}

TEST_CASE("date of a resumed run: finetuning notes that of its chat templates, text notes none") {
  auto const noted = [](mpt::data_config const& data) {
    mpt::trained_set const set{.date = std::chrono::local_seconds(std::chrono::seconds(7))};
    return mpt::detail::data_order_of({}, data, {}, {}, set).value("data_local_time", -1);
  };
  mpt::data_config data;
  CHECK(noted(data) == -1);
  data.train_loader.finetuning.emplace();
  CHECK(noted(data) == 7);
  data_test::scratch_folder const folder;
  auto const missing = (folder.path() / "none").string();
  CHECK_FALSE(mpt::date_of_resumed_run({.save_folder = missing, .autoresume = true}));
  CHECK_FALSE(mpt::date_of_resumed_run({.load_path = missing}));
}

}  // namespace same_data_test
