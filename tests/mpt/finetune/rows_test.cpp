#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/rows.hpp>
#include <vector>

namespace rows_test {

using mpt::finetune::bin;
using mpt::finetune::example;
using mpt::finetune::make_rows;
using mpt::finetune::padding_side;
using ids = std::vector<std::int32_t>;

inline std::vector<example> const examples = {
    {{1, 2, 3}, {-100, 3, -100}}, {{4, 5}, {5, -100}}, {{6, 7, 8}, {7, 8, -100}}};

}  // namespace rows_test

TEST_CASE("rows hold their examples one behind the other, and padding is a document of its own") {
  using namespace rows_test;
  std::vector<bin> const bins = {{5, {0, 1}}, {3, {2}}};
  auto const made = make_rows(examples, bins, {.length = 6, .pad_id = 9});
  CHECK(made.count == 2);
  CHECK(made.length == 6);
  CHECK(made.ids == ids{1, 2, 3, 4, 5, 9, 6, 7, 8, 9, 9, 9});
  CHECK(made.labels == ids{-100, 3, -100, 5, -100, -100, 7, 8, -100, -100, -100, -100});
  CHECK(made.document_begins == ids{0, 0, 0, 3, 3, 5, 0, 0, 0, 3, 3, 3});
  auto const left =
      make_rows(examples, bins, {.length = 6, .pad_id = 9, .side = padding_side::left});
  CHECK(left.ids == ids{9, 1, 2, 3, 4, 5, 9, 9, 9, 6, 7, 8});
  CHECK(left.labels == ids{-100, -100, 3, -100, 5, -100, -100, -100, -100, 7, 8, -100});
  CHECK(left.document_begins == ids{0, 1, 1, 1, 4, 4, 0, 0, 0, 3, 3, 3});
  CHECK(data_test::message_of([&] { (void)make_rows(examples, bins, {.length = 4}); }) ==
        "a row of 5 tokens does not fit into 4");
}
