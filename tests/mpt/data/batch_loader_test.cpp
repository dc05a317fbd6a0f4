#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mpt/data/batch_loader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace batch_loader_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::batch_loader;
using mpt::data::batch_loader_options;
using mpt::data::loader_mode;
using mpt::data::loader_position;
using mpt::data::token_dataset;
using rows = std::vector<std::int32_t>;

/// `count` samples of three ids: i, i + 1000, i + 2000.
inline std::shared_ptr<token_dataset const> make_set(std::filesystem::path const& folder, int count,
                                                     std::string const& compression = "zstd") {
  mpt::data::mds_writer writer(folder, {{{"tokens", "ndarray:int32"}}, compression, {}, 400});
  auto const encoding = mpt::data::mds_encoding::parse("ndarray:int32");
  for (std::int32_t i = 0; i < count; ++i) {
    std::string bytes;
    rows const ids{i, i + 1000, i + 2000};
    encoding.encode_array(bytes, std::span<std::int32_t const>(ids), std::vector<std::uint64_t>{3});
    std::string_view const columns[] = {bytes};
    (void)writer.write(columns);
  }
  writer.finish();
  return std::make_shared<token_dataset const>(
      folder, mpt::data::token_dataset_options{.sequence_length = 3});
}

/// The sample numbers of a batch, after a check that the ids belong together.
inline rows samples_of(mpt::data::token_batch const& batch) {
  rows out;
  auto const view = batch.view();
  for (parallel::index row = 0; row < view.extent(0); ++row) {
    out.push_back(view(row, 0));
    CHECK(view(row, 1) == view(row, 0) + 1000);
    CHECK(view(row, 2) == view(row, 0) + 2000);
  }
  return out;
}

/// Samples of `batches` batches in order.
inline std::vector<rows> take(std::shared_ptr<token_dataset const> const& set,
                              batch_loader_options const& options, std::size_t batches) {
  batch_loader loader(set, options);
  std::vector<rows> out;
  while (out.size() < batches) {
    auto const batch = loader.next();
    if (!batch) break;
    out.push_back(samples_of(*batch));
  }
  return out;
}

}  // namespace batch_loader_test

TEST_CASE(
    "batch loader: epochs differ, each has every sample once except the incomplete last batch") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 47);
  batch_loader_options const options{.global_batch_size = 5, .last_row = 5};
  auto const batches = take(set, options, 27);
  REQUIRE(batches.size() == 27);
  std::vector<rows> epochs(3);
  for (std::size_t b = 0; b < 27; ++b)
    epochs[b / 9].insert(epochs[b / 9].end(), batches[b].begin(), batches[b].end());
  for (auto epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch.size() == 45);
    CHECK(std::adjacent_find(epoch.begin(), epoch.end()) == epoch.end());
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
}

TEST_CASE("batch loader: the rows of all ranks together are the batch of a single rank") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 47);
  auto const whole = take(set, {.global_batch_size = 12, .last_row = 12}, 10);
  for (std::uint64_t const ranks : {1U, 2U, 3U, 4U, 5U, 7U, 12U}) {
    std::vector<rows> joined(10);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      auto const share = take(set,
                              {.global_batch_size = 12,
                               .first_row = 12 * rank / ranks,
                               .last_row = 12 * (rank + 1) / ranks},
                              10);
      for (std::size_t b = 0; b < 10; ++b)
        joined[b].insert(joined[b].end(), share[b].begin(), share[b].end());
    }
    CHECK(joined == whole);
  }
}

TEST_CASE(
    "batch loader: a run resumed at any batch reads the same batches as an uninterrupted run") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 23);
  batch_loader_options options{.global_batch_size = 4, .last_row = 4, .order = {.seed = 5}};
  auto const whole = take(set, options, 20);
  for (std::size_t stop = 0; stop < 20; ++stop) {
    loader_position saved;
    {
      batch_loader loader(set, options);
      for (std::size_t b = 0; b < stop; ++b) (void)loader.next();
      saved = loader.position();
      CHECK(loader.batches_per_epoch() == 5);
    }
    CHECK(saved == loader_position{stop / 5, stop % 5 * 4});
    auto resumed = options;
    resumed.start = saved;
    auto const rest = take(set, resumed, 20 - stop);
    CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + static_cast<std::ptrdiff_t>(stop)));
  }
}

TEST_CASE(
    "batch loader, several streams: batches depend neither on ranks nor on the resume point") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  mpt::data::token_streams const streams(
      {make_set(folder / "a", 23), make_set(folder / "b", 40, ""), make_set(folder / "c", 5)},
      {23, 10, 14});
  auto const take_from = [&](batch_loader_options const& options, std::size_t batches) {
    batch_loader loader(streams, options);
    std::vector<rows> out;
    while (out.size() < batches) out.push_back(samples_of(*loader.next()));
    return out;
  };
  for (std::uint64_t const limit : {0U, 5U}) {
    auto const whole = take_from(
        {.global_batch_size = 4, .last_row = 4, .order = {.seed = 5}, .epoch_batches = limit}, 25);
    std::vector<rows> joined(25);
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      auto const share = take_from({.global_batch_size = 4,
                                    .first_row = 4 * rank / 3,
                                    .last_row = 4 * (rank + 1) / 3,
                                    .order = {.seed = 5},
                                    .epoch_batches = limit},
                                   25);
      for (std::size_t b = 0; b < 25; ++b)
        joined[b].insert(joined[b].end(), share[b].begin(), share[b].end());
    }
    CHECK(joined == whole);
    std::uint64_t const per_epoch = limit == 0 ? 47 / 4 : limit;
    for (std::uint64_t stop = 0; stop < 25; ++stop) {
      auto const rest = take_from({.global_batch_size = 4,
                                   .last_row = 4,
                                   .order = {.seed = 5},
                                   .start = {stop / per_epoch, stop % per_epoch * 4},
                                   .epoch_batches = limit},
                                  25 - stop);
      CHECK(
          std::equal(rest.begin(), rest.end(), whole.begin() + static_cast<std::ptrdiff_t>(stop)));
    }
  }
}

TEST_CASE("batch loader: no sample of an epoch comes twice if the batch size changes at a resume") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 24);
  auto seen = take(set, {.global_batch_size = 4, .last_row = 4}, 3);
  auto const rest = take(set, {.global_batch_size = 6, .last_row = 6, .start = {0, 12}}, 2);
  seen.insert(seen.end(), rest.begin(), rest.end());
  rows samples;
  for (auto const& batch : seen) samples.insert(samples.end(), batch.begin(), batch.end());
  std::sort(samples.begin(), samples.end());
  for (std::int32_t i = 0; i < 24; ++i) CHECK(samples[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("batch loader: evaluation reads once, in order, and keeps the incomplete last batch") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 10, "");
  batch_loader_options const options{
      .mode = loader_mode::evaluate, .global_batch_size = 4, .last_row = 4};
  auto const batches = take(set, options, 100);
  REQUIRE(batches.size() == 3);
  CHECK(batches[0] == rows{0, 1, 2, 3});
  CHECK(batches[2] == rows{8, 9});
  auto second = options;
  second.first_row = 2;
  auto const share = take(set, second, 100);
  REQUIRE(share.size() == 3);
  CHECK(share[1] == rows{6, 7});
  CHECK(share[2].empty());
  batch_loader loader(set, second);
  CHECK(loader.batches_per_epoch() == 3);
  for (int b = 0; b < 2; ++b) (void)loader.next();
  CHECK(loader.next()->global_rows == 2);
  CHECK_FALSE(loader.next().has_value());
  CHECK_FALSE(loader.next().has_value());
}

TEST_CASE(
    "batch loader: a batch larger than the set is refused, one larger than the epoch's rest "
    "skipped") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 10);
  auto const error = [&](batch_loader_options const& options) {
    return message_of([&] { batch_loader(set, options); });
  };
  CHECK(contains(error({.global_batch_size = 11}), "has 10 samples, fewer than one global batch"));
  CHECK(contains(error({.global_batch_size = 4, .first_row = 3, .last_row = 5}),
                 "rows [3, 5) are not a share of a global batch of 4"));
  CHECK(contains(error({.start = {0, 11}}), "not the set it was trained on"));
  CHECK(contains(error({.prefetch = 0}), "at least one batch ahead"));
  CHECK(contains(error({.max_cache_bytes = 100}), "lower shuffle_block_size"));
  CHECK(error({.global_batch_size = 10, .last_row = 10}) == "");
  batch_loader loader(set, {.global_batch_size = 4, .last_row = 4, .start = {2, 8}});
  CHECK(loader.position() == loader_position{3, 0});
}

TEST_CASE("batch loader: an error in reading reaches the caller at the batch that failed") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 40, "");
  std::filesystem::resize_file(folder / "shard.00003.mds", 100);
  batch_loader loader(
      set, {.mode = loader_mode::evaluate, .global_batch_size = 2, .last_row = 2, .prefetch = 3});
  std::uint64_t batch_count = 0;
  auto const message = message_of([&] {
    while (loader.next()) ++batch_count;
  });
  CHECK(contains(message, "shard.00003.mds: has 100 bytes"));
  auto const& shards = set->reader().shards();
  CHECK(batch_count == (shards[0].samples + shards[1].samples + shards[2].samples) / 2);
  CHECK(message_of([&] { (void)loader.next(); }) ==
        message);  // a repeated call throws again and never hangs
}

TEST_CASE("batch loader: destruction in mid-epoch stops the reading thread") {
  using namespace batch_loader_test;
  data_test::scratch_folder const folder;
  auto const set = make_set(folder.path(), 40);
  for (int i = 0; i < 50; ++i) {
    batch_loader loader(set, {.global_batch_size = 3, .last_row = 3, .prefetch = 1});
    if (i % 2 == 0) (void)loader.next();
  }
}
