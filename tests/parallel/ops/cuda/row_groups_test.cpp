// Rows in groups, at every alignment and length, against the plain row.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/ops/cuda/row_groups.hpp>

#include "support/devices/host_block.hpp"

namespace row_groups_test {

using namespace parallel;

/// to[i] = from[i] + 1 through groups held in registers.
template <unsigned Kept>
struct increment {
  float* to;
  float const* from;
  unsigned count;

  template <class Block>
  void operator()(Block& b) const {
    cuda::held_row<float, Kept> const held(b, from, count);
    cuda::row_groups<float> const out(to, count);
    cuda::for_each_group<Kept>(b, held.row.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      for (float& v : values.value) v += 1.0F;
      out.store(p, values);
    });
  }
};

TEST_CASE("row_groups: each element of a row is in one group, for any alignment and length") {
  std::vector<float> from(2000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  for (unsigned const count : {0U, 1U, 3U, 4U, 31U, 1024U, 1027U})
    for (std::size_t const begin : {0, 1})
      for (std::size_t const to_begin : {0, 2}) {
        std::vector<float> to(count + 8, -7.0F);
        testing::run_in_every_order(
            1, 64, 0, increment<4>{to.data() + to_begin, from.data() + begin, count}, [&](auto) {
              for (std::size_t i = 0; i < to.size(); ++i)
                CHECK(to[i] == (i < to_begin || i >= to_begin + count
                                    ? -7.0F
                                    : from[begin + i - to_begin] + 1.0F));
            });
      }
}

TEST_CASE("row_groups: the last group of a row is filled with zeros") {
  alignas(16) float const row[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  cuda::row_groups<float const> const groups(row, 6);
  CHECK(groups.groups() == 2);
  CHECK(groups.valid(0) == 4);
  CHECK(groups.valid(1) == 2);
  auto const last = groups.load(1);
  CHECK(last.value[1] == 6);
  CHECK(last.value[2] == 0);
  CHECK(last.value[3] == 0);
  CHECK(cuda::row_groups<float const>(row + 1, 4).load(0).value[3] == 5);
}

}  // namespace row_groups_test
