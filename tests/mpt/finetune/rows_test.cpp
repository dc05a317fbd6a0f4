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

TEST_CASE("rows: examples follow one another, and padding is its own document") {
  using namespace rows_test;
  std::vector<bin> const bins = {{5, {0, 1}}, {3, {2}}};
  auto const right_padded = make_rows(examples, bins, {.length = 6, .pad_id = 9});
  CHECK(right_padded.count == 2);
  CHECK(right_padded.length == 6);
  CHECK(right_padded.ids == ids{1, 2, 3, 4, 5, 9, 6, 7, 8, 9, 9, 9});
  CHECK(right_padded.labels == ids{-100, 3, -100, 5, -100, -100, 7, 8, -100, -100, -100, -100});
  CHECK(right_padded.document_begins == ids{0, 0, 0, 3, 3, 5, 0, 0, 0, 3, 3, 3});
  auto const left_padded =
      make_rows(examples, bins, {.length = 6, .pad_id = 9, .side = padding_side::left});
  CHECK(left_padded.ids == ids{9, 1, 2, 3, 4, 5, 9, 9, 9, 6, 7, 8});
  CHECK(left_padded.labels == ids{-100, -100, 3, -100, 5, -100, -100, -100, -100, 7, 8, -100});
  CHECK(left_padded.document_begins == ids{0, 1, 1, 1, 4, 4, 0, 0, 0, 3, 3, 3});
  CHECK(data_test::message_of([&] { (void)make_rows(examples, bins, {.length = 4}); }) ==
        "a row of 5 tokens does not fit into 4");
}
