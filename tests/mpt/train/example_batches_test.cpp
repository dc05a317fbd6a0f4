// Batches of examples: every rank's rows of what all ranks train on together, padded and packed.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/example_batches.hpp>

namespace example_batches_test {

using parallel::index;
using ids = std::vector<std::int32_t>;

/// Example i: i + 2 ids that begin with 100 + i, the last two of which are trained on.
std::shared_ptr<mpt::example_set const> some(int count) {
  mpt::example_set out;
  out.pad_id = 9;
  for (int i = 0; i < count; ++i) {
    mpt::finetune::example one;
    for (int k = 0; k < i % 5 + 3; ++k) one.ids.push_back(100 + i + 50 * k);
    one.labels.assign(one.ids.size(), mpt::finetune::no_label);
    for (std::size_t k = one.ids.size() - 3; k + 1 < one.ids.size(); ++k)
      one.labels[k] = one.ids[k + 1];
    out.examples.push_back(one);
  }
  return std::make_shared<mpt::example_set const>(out);
}

mpt::train_config config(std::optional<mpt::packing_config> packing = {}) {
  mpt::train_config c;
  c.train_loader.finetuning = mpt::finetuning_config{.packing = packing};
  c.train_loader.max_seq_len = 12;
  c.train_loader.shuffle = true;
  c.global_train_batch_size = 4;
  return c;
}

/// How often each (id, label) pair that is trained on comes.
std::map<std::pair<int, int>, int> trained_in(std::vector<mpt::sequences> const& all) {
  std::map<std::pair<int, int>, int> out;
  for (auto const& batch : all) {
    auto const view = batch.view({0, batch.count()});
    for (index i = 0; i < view.ids.size(); ++i)
      if (view.labels(i) >= 0) ++out[{view.ids(i), view.labels(i)}];
  }
  return out;
}

std::map<std::pair<int, int>, int> once(mpt::example_set const& set) {
  std::map<std::pair<int, int>, int> out;
  for (auto const& one : set.examples)
    for (std::size_t i = 0; i < one.ids.size(); ++i)
      if (one.labels[i] >= 0) ++out[{one.ids[i], one.labels[i]}];
  return out;
}

TEST_CASE("an epoch has every example once, and every epoch another order") {
  auto const set = some(20);
  mpt::example_batches data(config(), set, 0, 1);
  CHECK(data.batches_per_epoch() == 5);
  CHECK(data.samples() == 20);
  std::vector<mpt::sequences> first, second;
  for (index b = 0; b < 5; ++b) first.push_back(data.at(b));
  for (index b = 5; b < 10; ++b) second.push_back(data.at(b));
  CHECK(trained_in(first) == once(*set));
  CHECK(trained_in(second) == once(*set));
  CHECK(first[0].view({0, 1}).ids(0) != second[0].view({0, 1}).ids(0));
  CHECK(first[0].length() == 12);
  CHECK(first[0].view({0, 4}).loss_tokens == 8);
}

TEST_CASE("trimmed rows are as long as the global batch needs, on every rank") {
  auto const set = some(20);
  auto c = config();
  c.train_loader.max_seq_len = 40;
  mpt::example_batches whole(c, set, 0, 1);
  c.train_loader.finetuning->trimming = mpt::finetune::row_trimming::to_multiple;
  mpt::example_batches first(c, set, 0, 2), second(c, set, 1, 2);
  auto const lengths = set->lengths();
  for (index b = 0; b < 5; ++b) {
    CAPTURE(b);
    auto const all = whole.at(b);
    auto const here = first.at(b);
    auto const there = second.at(b);
    CHECK(here.length() == (b == 0 ? 40 : there.length()));
    CHECK(here.length() % 8 == 0);
    CHECK(first.padded_tokens() == 4 * here.length());
    CHECK(first.tokens() == whole.tokens());
    auto both = trained_in({here});
    for (auto const& [pair, times] : trained_in({there})) both[pair] += times;
    CHECK(both == trained_in({all}));
    auto const used = [&](mpt::sequences const& rows) {  // the last place that has a label, and 1
      auto const view = rows.view({0, rows.count()});
      index most = 0;
      for (index i = 0; i < view.ids.size(); ++i)
        if (view.labels(i) >= 0) most = std::max(most, i % rows.length() + 2);
      return most;
    };
    if (b > 0) CHECK(here.length() == (used(all) + 7) / 8 * 8);
  }
}

TEST_CASE("the rows of all ranks are those of one, from any batch on, padded and packed") {
  auto const set = some(60);
  for (auto const& packing :
       {std::optional<mpt::packing_config>(), std::optional(mpt::packing_config{2.0, {}}),
        std::optional(mpt::packing_config{1.6, 2})}) {
    CAPTURE(packing.has_value());
    auto const c = config(packing);
    mpt::example_batches one(c, set, 0, 1);
    for (index batch = 0; batch < 20; ++batch) {
      auto const whole = one.at(batch);
      auto const tokens = one.tokens();
      REQUIRE(whole.count() == 4);
      auto const all = whole.view({0, 4});
      for (int ranks : {2, 3, 4})
        for (int rank = 0; rank < ranks; ++rank) {
          mpt::example_batches data(c, set, rank, ranks);  // jumps there at once
          auto const part = data.at(batch);
          CHECK(data.tokens() == tokens);
          auto const share = data.share();
          REQUIRE(part.count() == share.size());
          auto const here = part.view({0, part.count()});
          for (index i = 0; i < here.ids.size(); ++i) {
            CHECK(here.ids(i) == all.ids(share.begin * 12 + i));
            CHECK(here.labels(i) == all.labels(share.begin * 12 + i));
            CHECK(here.document_begins[static_cast<std::size_t>(i)] ==
                  all.document_begins[static_cast<std::size_t>(share.begin * 12 + i)]);
          }
        }
    }
  }
}

TEST_CASE("a packed epoch has fewer steps, and rows hold several examples") {
  auto const set = some(60);
  mpt::example_batches data(config(mpt::packing_config{2.0, {}}), set, 0, 1);
  CHECK(data.batches_per_epoch() == 7);  // of 8 examples
  auto const batch = data.at(0);
  CHECK(data.tokens() > 4 * 5);
  auto const view = batch.view({0, 4});
  CHECK(view.loss_tokens == 2 * 8);  // two of each, none is left over
  CHECK(std::ranges::count_if(view.document_begins, [](auto at) { return at > 0; }) > 0);
}

TEST_CASE("an automatic ratio leaves nothing over") {
  auto const set = some(600);  // of 5 ids on average
  auto c = config(mpt::packing_config{});
  c.train_loader.max_seq_len = 400;
  mpt::example_batches data(c, set, 0, 1);
  auto const ratio = 600.0 / static_cast<double>(data.batches_per_epoch() * 4);
  CHECK(ratio == doctest::Approx(4).epsilon(0.05));  // of the ratios that are tried the largest
  c.train_loader.max_seq_len = 12;                   // too short to try any
  CHECK(mpt::example_batches(c, set, 0, 1).batches_per_epoch() == 150);
}

TEST_CASE("the ratio that packing_ratio auto found is said of every loader that asks for it") {
  mpt::run_examples examples{.train = some(600), .evaluation = {some(100), some(50)}};
  auto c = config(mpt::packing_config{});
  c.train_loader.max_seq_len = 400;
  CHECK(mpt::detail::found_packing_ratio(c.train_loader, examples.train.get(), 4) == 4.0);
  auto loader = c.train_loader;
  loader.label = "a";
  c.eval_loaders = {loader, loader};
  c.eval_loaders[1].finetuning->packing->ratio = 3;  // which was not found, but told
  c.evaluation.device_eval_batch_size = 2;
  auto const said = mpt::describe_packing(examples, c);
  REQUIRE(said.size() == 2);
  CHECK(said[0] == "train_loader: packing_ratio auto is 4, 16 examples for 4 rows");
  CHECK(said[1].find("packing_ratio auto is ") != std::string::npos);
  c.train_loader.finetuning->packing = std::nullopt;
  CHECK(!mpt::detail::found_packing_ratio(c.train_loader, examples.train.get(), 4));
  CHECK(!mpt::detail::found_packing_ratio(c.eval_loaders[1], examples.train.get(), 4));
  CHECK(!mpt::detail::found_packing_ratio(c.eval_loaders[0], nullptr, 4));
}

TEST_CASE("an epoch can be cut short, and too few examples are refused") {
  auto c = config();
  c.train_subset_num_batches = 3;
  CHECK(mpt::example_batches(c, some(20), 0, 1).batches_per_epoch() == 3);
  CHECK_THROWS_WITH_AS(mpt::example_batches(config(), some(3), 0, 1),
                       "an epoch has 3 examples, fewer than one batch of 4 (4 rows); give more "
                       "data or lower the batch size",
                       parallel::error);
}

TEST_CASE("evaluation takes every example once, whatever the packing and the ranks") {
  auto const set = some(23);
  mpt::loader_config loader = config().train_loader;
  for (std::optional<double> ratio : {std::optional<double>(), std::optional(2.5)}) {
    if (ratio) loader.finetuning->packing = mpt::packing_config{ratio, {}};
    for (int ranks : {1, 2, 3}) {
      std::vector<mpt::sequences> all;
      std::size_t batches = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        mpt::example_evaluation data(*set, loader, 2, rank, ranks, -1);
        std::size_t here = 0;
        while (auto part = data.next()) {
          CHECK(part->count() <= 2);
          all.push_back(*std::move(part));
          ++here;
        }
        CHECK((rank == 0 || here == batches));
        batches = here;
      }
      CHECK(trained_in(all) == once(*set));
      if (!ratio) CHECK(batches == static_cast<std::size_t>((23 + 2 * ranks - 1) / (2 * ranks)));
    }
  }
  mpt::example_evaluation some_only(*set, loader, 2, 0, 1, 3);
  int batches = 0;
  while (some_only.next()) ++batches;
  CHECK(batches == 3);
}

}  // namespace example_batches_test
