// Batches of examples, padded and packed: every rank has its rows of the global batch.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/data/example_batches.hpp>

namespace example_batches_test {

using parallel::index;
using ids = std::vector<std::int32_t>;

/// Examples with 3 to 7 ids, the first of which is 100 + number; the last two ids are trained on.
std::shared_ptr<mpt::example_set const> make_examples(int count) {
  mpt::example_set out;
  out.pad_id = 9;
  for (int number = 0; number < count; ++number) {
    mpt::finetune::example example;
    for (int position = 0; position < number % 5 + 3; ++position)
      example.ids.push_back(100 + number + 50 * position);
    example.labels.assign(example.ids.size(), mpt::finetune::no_label);
    for (std::size_t position = example.ids.size() - 3; position + 1 < example.ids.size();
         ++position)
      example.labels[position] = example.ids[position + 1];
    out.examples.push_back(example);
  }
  return std::make_shared<mpt::example_set const>(out);
}

mpt::train_config config(std::optional<mpt::packing_config> packing = {}) {
  mpt::train_config c;
  c.data.train_loader.finetuning = mpt::finetuning_config{.packing = packing};
  c.data.train_loader.max_seq_len = 12;
  c.data.train_loader.shuffle = true;
  c.data.global_train_batch_size = 4;
  return c;
}

/// The number of occurrences in the batches of each (id, label) pair that is trained on.
std::map<std::pair<int, int>, int> count_trained(std::vector<mpt::sequences> const& batches) {
  std::map<std::pair<int, int>, int> out;
  for (auto const& batch : batches) {
    auto const view = batch.view({0, batch.count()});
    for (index i = 0; i < view.ids.size(); ++i)
      if (view.labels(i) >= 0) ++out[{view.ids(i), view.labels(i)}];
  }
  return out;
}

std::map<std::pair<int, int>, int> count_labels(mpt::example_set const& set) {
  std::map<std::pair<int, int>, int> out;
  for (auto const& example : set.examples)
    for (std::size_t i = 0; i < example.ids.size(); ++i)
      if (example.labels[i] >= 0) ++out[{example.ids[i], example.labels[i]}];
  return out;
}

mpt::example_batches batches_of(mpt::train_config const& config,
                                std::shared_ptr<mpt::example_set const> set, int rank, int ranks) {
  return {config.data, config.execution, std::move(set), rank, ranks};
}

TEST_CASE("example batches: an epoch has every example once, and epochs differ in their order") {
  auto const set = make_examples(20);
  auto data = batches_of(config(), set, 0, 1);
  CHECK(data.batches_per_epoch() == 5);
  CHECK(data.samples() == 20);
  std::vector<mpt::sequences> first, second;
  for (index b = 0; b < 5; ++b) first.push_back(data.at(b));
  for (index b = 5; b < 10; ++b) second.push_back(data.at(b));
  CHECK(count_trained(first) == count_labels(*set));
  CHECK(count_trained(second) == count_labels(*set));
  CHECK(first[0].view({0, 1}).ids(0) != second[0].view({0, 1}).ids(0));
  CHECK(first[0].length() == 12);
  CHECK(first[0].view({0, 4}).loss_tokens == 8);
}

TEST_CASE("example batches: trimmed rows on every rank are as long as the global batch needs") {
  auto const set = make_examples(20);
  auto c = config();
  c.data.train_loader.max_seq_len = 40;
  auto whole = batches_of(c, set, 0, 1);
  c.data.train_loader.finetuning->trimming = mpt::finetune::row_trimming::to_multiple;
  auto first = batches_of(c, set, 0, 2);
  auto second = batches_of(c, set, 1, 2);
  auto const lengths = set->lengths();
  for (index b = 0; b < 5; ++b) {
    CAPTURE(b);
    auto const all_rows = whole.at(b);
    auto const first_rows = first.at(b);
    auto const second_rows = second.at(b);
    CHECK(first_rows.length() == (b == 0 ? 40 : second_rows.length()));
    CHECK(first_rows.length() % 8 == 0);
    CHECK(first.padded_tokens() == 4 * first_rows.length());
    CHECK(first.tokens() == whole.tokens());
    auto counts = count_trained({first_rows});
    for (auto const& [pair, times] : count_trained({second_rows})) counts[pair] += times;
    CHECK(counts == count_trained({all_rows}));
    auto const labelled_length = [&](mpt::sequences const& rows) {  // to the last target
      auto const view = rows.view({0, rows.count()});
      index end = 0;
      for (index i = 0; i < view.ids.size(); ++i)
        if (view.labels(i) >= 0) end = std::max(end, i % rows.length() + 2);
      return end;
    };
    if (b > 0) CHECK(first_rows.length() == (labelled_length(all_rows) + 7) / 8 * 8);
  }
}

TEST_CASE("example batches: several ranks together have the rows of one rank, from any batch on") {
  auto const set = make_examples(60);
  for (auto const& packing :
       {std::optional<mpt::packing_config>(), std::optional(mpt::packing_config{2.0, {}}),
        std::optional(mpt::packing_config{1.6, 2})}) {
    CAPTURE(packing.has_value());
    auto const c = config(packing);
    auto single_rank = batches_of(c, set, 0, 1);
    for (index batch = 0; batch < 20; ++batch) {
      auto const whole = single_rank.at(batch);
      auto const tokens = single_rank.tokens();
      REQUIRE(whole.count() == 4);
      auto const all_rows = whole.view({0, 4});
      for (int ranks : {2, 3, 4})
        for (int rank = 0; rank < ranks; ++rank) {
          auto data = batches_of(c, set, rank, ranks);  // begins at this batch
          auto const part = data.at(batch);
          CHECK(data.tokens() == tokens);
          auto const share = data.share();
          REQUIRE(part.count() == share.size());
          auto const own_rows = part.view({0, part.count()});
          for (index i = 0; i < own_rows.ids.size(); ++i) {
            CHECK(own_rows.ids(i) == all_rows.ids(share.begin * 12 + i));
            CHECK(own_rows.labels(i) == all_rows.labels(share.begin * 12 + i));
            CHECK(own_rows.document_begins[static_cast<std::size_t>(i)] ==
                  all_rows.document_begins[static_cast<std::size_t>(share.begin * 12 + i)]);
          }
        }
    }
  }
}

TEST_CASE("example batches: a packed epoch has fewer batches, whose rows hold several examples") {
  auto const set = make_examples(60);
  auto data = batches_of(config(mpt::packing_config{2.0, {}}), set, 0, 1);
  CHECK(data.batches_per_epoch() == 7);  // of 8 examples
  auto const batch = data.at(0);
  CHECK(data.tokens() > 4 * 5);
  auto const view = batch.view({0, 4});
  CHECK(view.loss_tokens == 2 * 8);  // two of each example, and no example is left over
  CHECK(std::ranges::count_if(view.document_begins, [](auto begin) { return begin > 0; }) > 0);
}

TEST_CASE("example batches: an automatic packing ratio leaves no example over") {
  auto const set = make_examples(600);  // of 5 ids on average
  auto c = config(mpt::packing_config{});
  c.data.train_loader.max_seq_len = 400;
  auto data = batches_of(c, set, 0, 1);
  auto const ratio = 600.0 / static_cast<double>(data.batches_per_epoch() * 4);
  CHECK(ratio == doctest::Approx(4).epsilon(0.05));  // the largest ratio that is tried
  c.data.train_loader.max_seq_len = 12;              // too short to try any
  CHECK(batches_of(c, set, 0, 1).batches_per_epoch() == 150);
}

TEST_CASE("example batches: the ratio of `packing_ratio: auto` is reported for every such loader") {
  mpt::run_examples examples{.train = make_examples(600),
                             .evaluation = {make_examples(100), make_examples(50)}};
  auto c = config(mpt::packing_config{});
  c.data.train_loader.max_seq_len = 400;
  CHECK(mpt::detail::automatic_packing_ratio(c.data.train_loader, examples.train.get(), 4) == 4.0);
  auto loader = c.data.train_loader;
  loader.label = "a";
  c.data.eval_loaders = {loader, loader};
  c.data.eval_loaders[1].finetuning->packing->ratio = 3;  // set by the user
  c.evaluation.device_eval_batch_size = 2;
  auto const lines = mpt::describe_packing(examples, c.data, c.evaluation);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "train_loader: packing_ratio auto is 4, 16 examples for 4 rows");
  CHECK(lines[1].find("packing_ratio auto is ") != std::string::npos);
  c.data.train_loader.finetuning->packing = std::nullopt;
  CHECK(!mpt::detail::automatic_packing_ratio(c.data.train_loader, examples.train.get(), 4));
  CHECK(!mpt::detail::automatic_packing_ratio(c.data.eval_loaders[1], examples.train.get(), 4));
  CHECK(!mpt::detail::automatic_packing_ratio(c.data.eval_loaders[0], nullptr, 4));
}

TEST_CASE("example batches: an epoch can be shortened, and too few examples are refused") {
  auto c = config();
  c.data.train_subset_num_batches = 3;
  CHECK(batches_of(c, make_examples(20), 0, 1).batches_per_epoch() == 3);
  CHECK_THROWS_WITH_AS(batches_of(config(), make_examples(3), 0, 1),
                       "an epoch has 3 examples, fewer than one batch of 4 (4 rows); give more "
                       "data or lower the batch size",
                       parallel::error);
}

TEST_CASE("example evaluation: every example is evaluated once, with any packing and any ranks") {
  auto const set = make_examples(23);
  mpt::loader_config loader = config().data.train_loader;
  for (std::optional<double> ratio : {std::optional<double>(), std::optional(2.5)}) {
    if (ratio) loader.finetuning->packing = mpt::packing_config{ratio, {}};
    for (int ranks : {1, 2, 3}) {
      std::vector<mpt::sequences> parts;
      std::size_t batches = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        mpt::example_evaluation data(*set, loader, 2, rank, ranks, -1);
        std::size_t rank_batches = 0;
        while (auto part = data.next()) {
          CHECK(part->count() <= 2);
          parts.push_back(*std::move(part));
          ++rank_batches;
        }
        CHECK((rank == 0 || rank_batches == batches));
        batches = rank_batches;
      }
      CHECK(count_trained(parts) == count_labels(*set));
      if (!ratio) CHECK(batches == static_cast<std::size_t>((23 + 2 * ranks - 1) / (2 * ranks)));
    }
  }
  mpt::example_evaluation limited(*set, loader, 2, 0, 1, 3);
  int batches = 0;
  while (limited.next()) ++batches;
  CHECK(batches == 3);
}

}  // namespace example_batches_test
