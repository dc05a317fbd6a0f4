#include <doctest/doctest.h>

#include <set>

#include <mpt/model/sequences.hpp>

namespace sequences_test {

TEST_CASE("sequences: labels are ids moved left by one, and -100 at the end of each row") {
  mpt::sequences const batch({1, 2, 3, 4, 5, 6}, 3);
  CHECK(batch.count() == 2);
  auto const both_rows = batch.view({0, 2});
  std::vector<std::int32_t> const labels(both_rows.labels.span().begin(),
                                         both_rows.labels.span().end());
  CHECK(labels == std::vector<std::int32_t>{2, 3, -100, 5, 6, -100});
  CHECK(both_rows.loss_tokens == 4);
  auto const second = batch.view({1, 2});
  CHECK(second.ids(0) == 4);
  CHECK(second.labels(0) == 5);
  CHECK(second.sequences == 1);
  CHECK(second.length == 3);
  CHECK(second.loss_tokens == 2);
}

TEST_CASE("sequences: documents begin after a token that ends one, or at one that begins one") {
  using side = mpt::document_separator::side;
  std::vector<std::int32_t> const ids = {1, 7, 2, 3, 7, 7, 7, 1, 1, 7, 2, 2};
  auto const begins = [&](mpt::document_separator separator) {
    mpt::sequences const batch(ids, 6, separator);
    auto const first = batch.view({0, 1}).document_begins;
    auto const second = batch.view({1, 2}).document_begins;
    CHECK(batch.view({0, 2}).document_begins.count() == first.count() + second.count());
    CHECK(first.count() == std::ssize(std::set(first.begin(), first.end())));
    std::vector<std::int32_t> out(first.begin(), first.end());
    out.insert(out.end(), second.begin(), second.end());
    return out;
  };
  // as LLM Foundry's collator counts: sequence ids 0 0 1 1 1 2 | 0 1 1 1 2 2
  CHECK(begins({side::ends_document, 7}) ==
        std::vector<std::int32_t>{0, 0, 2, 2, 2, 5, 0, 1, 1, 1, 4, 4});
  // 0 1 1 1 2 3 | 1 1 1 2 2 2
  CHECK(begins({side::begins_document, 7}) ==
        std::vector<std::int32_t>{0, 1, 1, 1, 4, 5, 0, 0, 0, 3, 3, 3});
  CHECK(begins({}).empty());
}

TEST_CASE("sequences: rows of examples keep their labels and the beginnings of examples") {
  mpt::sequences const batch({.count = 2,
                              .length = 3,
                              .ids = {1, 2, 3, 4, 5, 0},
                              .labels = {-100, 3, -100, 5, -100, -100},
                              .document_begins = {0, 0, 2, 0, 0, 2}});
  CHECK(batch.count() == 2);
  CHECK(batch.length() == 3);
  auto const both_rows = batch.view({0, 2});
  CHECK(both_rows.loss_tokens == 2);
  auto const second = batch.view({1, 2});
  CHECK(second.loss_tokens == 1);
  CHECK(second.ids(1) == 5);
  CHECK(second.labels(0) == 5);
  CHECK(std::vector<std::int32_t>(second.document_begins.begin(), second.document_begins.end()) ==
        std::vector<std::int32_t>{0, 0, 2});
}

TEST_CASE("sequences: ids that do not divide into rows are refused") {
  CHECK_THROWS_WITH(mpt::sequences({1, 2, 3}, 2),
                    "a batch of 3 ids does not divide into sequences of 2");
}

}  // namespace sequences_test
