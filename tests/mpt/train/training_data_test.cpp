// The data of a run: every rank's share of every batch, from any position.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/training_data.hpp>
#include <parallel/support/files.hpp>

#include "token_set.hpp"

namespace training_data_test {

using parallel::index;
using ids = std::vector<std::int32_t>;

constexpr std::int32_t length = 4;

/// Row i begins with i; the others follow from it.
void write(std::filesystem::path const& folder, std::int32_t count) {
  std::vector<ids> rows;
  for (std::int32_t i = 0; i < count; ++i) rows.push_back({i, i + 1, 7, i + 2});
  test::write_token_set(folder, rows);
}

/// 20 samples: 3 batches of 6 an epoch.
struct place {
  place() { write(folder / "train", 20); }

  [[nodiscard]] mpt::train_config config() const {
    mpt::train_config c;
    c.model.vocab_size = 30;
    c.train_loader.streams = {{.local = folder / "train"}};
    c.train_loader.shuffle = true;
    c.train_loader.max_seq_len = length;
    c.global_train_batch_size = 6;
    return c;
  }

  test::temporary_folder folder;
};

/// The samples of a batch, each named by its first id.
ids samples_of(mpt::sequences const& batch) {
  ids out;
  auto const rows = batch.view({0, batch.count()}).ids.span();
  for (std::size_t at = 0; at < rows.size(); at += length) out.push_back(rows[at]);
  return out;
}

TEST_CASE("an epoch has every sample at most once, and every epoch another order") {
  place const here;
  mpt::training_batches data(here.config(), 0, 1);
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

TEST_CASE("any batch can be asked for, and is the one that reading in order gives") {
  place const here;
  mpt::training_batches in_order(here.config(), 0, 1);
  std::vector<ids> all;
  for (index batch = 0; batch < 8; ++batch) all.push_back(samples_of(in_order.at(batch)));
  mpt::training_batches jumping(here.config(), 0, 1);
  for (index const batch : {5, 6, 0, 7, 7, 2})
    CHECK(samples_of(jumping.at(batch)) == all[static_cast<std::size_t>(batch)]);
}

TEST_CASE("the ranks' shares side by side are the global batch") {
  place const here;
  for (int const ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    mpt::training_batches whole(here.config(), 0, 1);
    for (index const batch : {0, 4}) {
      ids joined;
      for (int rank = 0; rank < ranks; ++rank) {
        mpt::training_batches data(here.config(), rank, ranks);
        auto const part = data.at(batch);
        CHECK(part.count() == data.share().size());
        for (auto const sample : samples_of(part)) joined.push_back(sample);
      }
      CHECK(joined == samples_of(whole.at(batch)));
    }
  }
}

TEST_CASE("train_subset_num_batches shortens the epoch, and a set below one batch is refused") {
  place const here;
  auto config = here.config();
  config.train_subset_num_batches = 2;
  CHECK(mpt::training_batches(config, 0, 1).batches_per_epoch() == 2);
  config.train_subset_num_batches = 9;
  CHECK(mpt::training_batches(config, 0, 1).batches_per_epoch() == 3);
  config.global_train_batch_size = 21;
  CHECK(test::contains(test::message_of([&] { mpt::training_batches const data(config, 0, 1); }),
                       "an epoch has 20 samples, fewer than one global batch of 21; prepare more "
                       "data or lower global_train_batch_size"));
}

TEST_CASE("training data: an epoch that settings make too small for a batch names them") {
  place const here;
  auto const error = [](mpt::train_config const& config) {
    return test::message_of([&] { mpt::training_batches const data(config, 0, 1); });
  };
  auto config = here.config();
  config.train_loader.epoch_size = 4;
  CHECK(error(config).ends_with(
      "train: an epoch has 4 samples, fewer than one global batch of 6, though there are 20; raise "
      "train_loader.dataset.epoch_size or lower global_train_batch_size"));
  config.train_loader.epoch_size.reset();
  config.train_loader.streams[0].weight.choose = 5;
  CHECK(error(config).ends_with(
      "an epoch has 5 samples, fewer than one global batch of 6, though there are 20; raise "
      "train_loader.dataset.streams.NAME.choose (or proportion, repeat) or lower "
      "global_train_batch_size"));
}

TEST_CASE("remote is read in place where local holds no set") {
  place const here;
  auto config = here.config();
  config.train_loader.shuffle = false;
  config.train_loader.streams = {{.local = here.folder / "cache", .remote = here.folder / "train"}};
  CHECK(samples_of(mpt::training_batches(config, 0, 1).at(0)) == ids{0, 1, 2, 3, 4, 5});
  write(here.folder / "cache", 7);
  CHECK(mpt::training_batches(config, 0, 1).samples() == 7);
}

TEST_CASE("an epoch's reach shuffles all samples, a shard's reach its largest shard") {
  place const here;
  auto config = here.config();
  auto const streams = mpt::open_streams(config.train_loader, 30);
  auto const order = [&] { return mpt::order_of(config.train_loader, streams); };
  CHECK(order().mode == mpt::data::shuffle::blocks);
  CHECK(order().block_size == 0);
  config.train_loader.shuffle_block_size = 5;
  CHECK(order().block_size == 5);
  config.train_loader.reach = mpt::shuffle_reach::epoch;
  CHECK(order().block_size == 20);
  config.train_loader.reach = mpt::shuffle_reach::shard;
  CHECK(order().block_size == 20);  // one shard
  config.train_loader.shuffle = false;
  CHECK(order().mode == mpt::data::shuffle::none);
}

TEST_CASE("documents begin behind the end-of-text token, or at the begin-of-text token") {
  place const here;
  auto config = here.config();
  config.train_loader.shuffle = false;
  auto const begins = [&] {
    auto const batch = mpt::training_batches(config, 0, 1).at(0);
    auto const all = batch.view({0, 1}).document_begins;
    return ids(all.begin(), all.end());
  };
  CHECK(begins().empty());
  config.train_loader.eos_token_id = 7;  // the third of four
  CHECK(begins() == ids{0, 0, 0, 3});
  config.train_loader.eos_token_id.reset();
  config.train_loader.bos_token_id = 7;
  CHECK(begins() == ids{0, 0, 2, 2});
}

TEST_CASE("an evaluation set is read once, to its last sample or as many batches as wished") {
  place const here;
  auto const read = [&](index max_batches, int ranks) {
    ids all;
    std::vector<index> counts;
    for (int rank = 0; rank < ranks; ++rank) {
      mpt::evaluation_batches data(mpt::open_streams(here.config().train_loader, 30), 3, rank,
                                   ranks, max_batches);
      index batches = 0;
      for (auto batch = data.next(); batch; batch = data.next(), ++batches)
        for (auto const sample : samples_of(*batch)) all.push_back(sample);
      counts.push_back(batches);
    }
    std::ranges::sort(all);
    CHECK(std::ranges::count(counts, counts[0]) == ranks);  // all take part in every batch
    return std::pair(counts[0], all);
  };
  ids every(20);
  for (std::int32_t i = 0; i < 20; ++i) every[static_cast<std::size_t>(i)] = i;
  CHECK(read(-1, 1) == std::pair(index{7}, every));
  CHECK(read(-1, 2) == std::pair(index{4}, every));
  CHECK(read(2, 1) == std::pair(index{2}, ids{0, 1, 2, 3, 4, 5}));
  CHECK(read(0, 1).second.empty());
}

}  // namespace training_data_test
