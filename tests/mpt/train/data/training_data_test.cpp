// The data of a run: every rank reads its share of every batch, from any position on.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/data/training_data.hpp>
#include <parallel/support/files.hpp>

#include "mpt/train/token_set.hpp"

namespace training_data_test {

using parallel::index;
using ids = std::vector<std::int32_t>;

constexpr std::int32_t length = 4;

/// Writes `count` rows of four ids; row i begins with i.
void write(std::filesystem::path const& folder, std::int32_t count) {
  std::vector<ids> rows;
  for (std::int32_t i = 0; i < count; ++i) rows.push_back({i, i + 1, 7, i + 2});
  test::write_token_set(folder, rows);
}

/// A temporary folder with 20 samples: an epoch has 3 batches of 6.
struct data_files {
  data_files() { write(folder / "train", 20); }

  [[nodiscard]] mpt::train_config config() const {
    mpt::train_config c;
    c.model.vocab_size = 30;
    c.data.train_loader.streams = {{.local = folder / "train"}};
    c.data.train_loader.shuffle = true;
    c.data.train_loader.max_seq_len = length;
    c.data.global_train_batch_size = 6;
    return c;
  }

  test::temporary_folder folder;
};

/// The first ids of a batch's rows, which identify the samples.
ids samples_of(mpt::sequences const& batch) {
  ids out;
  auto const rows = batch.view({0, batch.count()}).ids.span();
  for (std::size_t begin = 0; begin < rows.size(); begin += length) out.push_back(rows[begin]);
  return out;
}

mpt::training_batches batches_of(mpt::train_config const& config, int rank, int ranks) {
  return {config.model, config.data, config.execution, rank, ranks};
}

TEST_CASE(
    "training data: an epoch has every sample at most once, and epochs differ in their order") {
  data_files const files;
  auto data = batches_of(files.config(), 0, 1);
  CHECK(data.samples() == 20);
  CHECK(data.batches_per_epoch() == 3);
  std::vector<ids> epochs(2);
  for (index batch = 0; batch < 6; ++batch) {
    auto const part = data.at(batch);
    CHECK(part.count() == 6);
    CHECK(part.length() == length);
    for (auto const sample : samples_of(part))
      epochs[static_cast<std::size_t>(batch / 3)].push_back(sample);
  }
  for (auto const& epoch : epochs) {
    CHECK(std::set<std::int32_t>(epoch.begin(), epoch.end()).size() == 18);
    CHECK(std::ranges::min(epoch) >= 0);
    CHECK(std::ranges::max(epoch) < 20);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(data.waited_seconds() >= 0);
}

TEST_CASE("training data: a batch is the same when read in order or directly") {
  data_files const files;
  auto in_order = batches_of(files.config(), 0, 1);
  std::vector<ids> samples;
  for (index batch = 0; batch < 8; ++batch) samples.push_back(samples_of(in_order.at(batch)));
  auto jumping = batches_of(files.config(), 0, 1);
  for (index const batch : {5, 6, 0, 7, 7, 2})
    CHECK(samples_of(jumping.at(batch)) == samples[static_cast<std::size_t>(batch)]);
}

TEST_CASE("training data: the ranks' shares together are the global batch") {
  data_files const files;
  for (int const ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    auto whole = batches_of(files.config(), 0, 1);
    for (index const batch : {0, 4}) {
      ids joined;
      for (int rank = 0; rank < ranks; ++rank) {
        auto data = batches_of(files.config(), rank, ranks);
        auto const part = data.at(batch);
        CHECK(part.count() == data.share().size());
        for (auto const sample : samples_of(part)) joined.push_back(sample);
      }
      CHECK(joined == samples_of(whole.at(batch)));
    }
  }
}

TEST_CASE(
    "training data: train_subset_num_batches shortens an epoch; too few samples are refused") {
  data_files const files;
  auto config = files.config();
  config.data.train_subset_num_batches = 2;
  CHECK(batches_of(config, 0, 1).batches_per_epoch() == 2);
  config.data.train_subset_num_batches = 9;
  CHECK(batches_of(config, 0, 1).batches_per_epoch() == 3);
  config.data.global_train_batch_size = 21;
  CHECK(test::contains(test::message_of([&] { static_cast<void>(batches_of(config, 0, 1)); }),
                       "an epoch has 20 samples, fewer than one global batch of 21; prepare more "
                       "data or lower global_train_batch_size"));
}

TEST_CASE("training data: the error of an epoch smaller than a batch names the settings to blame") {
  data_files const files;
  auto const error = [](mpt::train_config const& config) {
    return test::message_of([&] { static_cast<void>(batches_of(config, 0, 1)); });
  };
  auto config = files.config();
  config.data.train_loader.epoch_size = 4;
  CHECK(error(config).ends_with(
      "train: an epoch has 4 samples, fewer than one global batch of 6, though there are 20; raise "
      "train_loader.dataset.epoch_size or lower global_train_batch_size"));
  config.data.train_loader.epoch_size.reset();
  config.data.train_loader.streams[0].weight.choose = 5;
  CHECK(error(config).ends_with(
      "an epoch has 5 samples, fewer than one global batch of 6, though there are 20; raise "
      "train_loader.dataset.streams.NAME.choose (or proportion, repeat) or lower "
      "global_train_batch_size"));
}

TEST_CASE("training data: `remote` is read in place where `local` holds no set") {
  data_files const files;
  auto config = files.config();
  config.data.train_loader.shuffle = false;
  config.data.train_loader.streams = {
      {.local = files.folder / "cache", .remote = files.folder / "train"}};
  CHECK(samples_of(batches_of(config, 0, 1).at(0)) == ids{0, 1, 2, 3, 4, 5});
  write(files.folder / "cache", 7);
  CHECK(batches_of(config, 0, 1).samples() == 7);
}

TEST_CASE("training data: the shuffle block is the epoch or the largest shard, by its reach") {
  data_files const files;
  auto config = files.config();
  auto const streams = mpt::open_streams(config.data.train_loader, 30);
  auto const order = [&] { return mpt::order_of(config.data.train_loader, streams); };
  CHECK(order().mode == mpt::data::shuffle::blocks);
  CHECK(order().block_size == 0);
  config.data.train_loader.shuffle_block_size = 5;
  CHECK(order().block_size == 5);
  config.data.train_loader.reach = mpt::shuffle_reach::epoch;
  CHECK(order().block_size == 20);
  config.data.train_loader.reach = mpt::shuffle_reach::shard;
  CHECK(order().block_size == 20);  // one shard
  config.data.train_loader.shuffle = false;
  CHECK(order().mode == mpt::data::shuffle::none);
}

TEST_CASE("training data: documents begin after end-of-text tokens, or at begin-of-text tokens") {
  data_files const files;
  auto config = files.config();
  config.data.train_loader.shuffle = false;
  auto const document_begins = [&] {
    auto const batch = batches_of(config, 0, 1).at(0);
    auto const begins = batch.view({0, 1}).document_begins;
    return ids(begins.begin(), begins.end());
  };
  CHECK(document_begins().empty());
  config.data.train_loader.eos_token_id = 7;  // the third of four
  CHECK(document_begins() == ids{0, 0, 0, 3});
  config.data.train_loader.eos_token_id.reset();
  config.data.train_loader.bos_token_id = 7;
  CHECK(document_begins() == ids{0, 0, 2, 2});
}

TEST_CASE("evaluation data: a set is read once, to its end or for max_batches batches") {
  data_files const files;
  auto const read = [&](index max_batches, int ranks) {
    ids samples;
    std::vector<index> counts;
    for (int rank = 0; rank < ranks; ++rank) {
      mpt::evaluation_batches data(mpt::open_streams(files.config().data.train_loader, 30), 3, rank,
                                   ranks, max_batches);
      index batches = 0;
      for (auto batch = data.next(); batch; batch = data.next(), ++batches)
        for (auto const sample : samples_of(*batch)) samples.push_back(sample);
      counts.push_back(batches);
    }
    std::ranges::sort(samples);
    CHECK(std::ranges::count(counts, counts[0]) == ranks);  // all ranks take part in every batch
    return std::pair(counts[0], samples);
  };
  ids all_samples(20);
  for (std::int32_t i = 0; i < 20; ++i) all_samples[static_cast<std::size_t>(i)] = i;
  CHECK(read(-1, 1) == std::pair(index{7}, all_samples));
  CHECK(read(-1, 2) == std::pair(index{4}, all_samples));
  CHECK(read(2, 1) == std::pair(index{2}, ids{0, 1, 2, 3, 4, 5}));
  CHECK(read(0, 1).second.empty());
}

}  // namespace training_data_test
