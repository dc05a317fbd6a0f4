#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/kv_cache.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/support/files.hpp>

namespace kv_cache_test {

using parallel::index;

TEST_CASE("KV cache: packed rows become keys and values by head, in order") {
  parallel::ops::head_layout const layout{.heads = 4, .kv_heads = 2, .dim = 3};  // [12 | 6 | 6]
  std::vector<int> packed(5 * 24);
  std::iota(packed.begin(), packed.end(), 0);
  std::vector<int> memory(6 * 12, -1);
  parallel::kv_cache<int> cache{.rows = {memory.data(), {6, 12}}};
  parallel::reference::stream s;
  parallel::matrix_view<int const> const rows(packed.data(), {5, 24});
  cache.append(s, layout, rows.slice(0, 2));
  CHECK(cache.length == 2);
  cache.append(s, layout, rows.slice(2, 5));
  CHECK(cache.length == 5);
  auto const keys = cache.keys(layout);
  auto const values = cache.values(layout);
  for (auto const& view : {keys, values}) {
    CHECK(view.batch == 1);
    CHECK(view.sequence == 5);
    CHECK(view.heads == 2);
    CHECK(view.head_dim == 3);
  }
  for (index t = 0; t < 5; ++t)
    for (index h = 0; h < 2; ++h)
      for (index i = 0; i < 3; ++i) {
        CHECK(keys.row(0, t, h)[i] == t * 24 + 12 + h * 3 + i);
        CHECK(values.row(0, t, h)[i] == t * 24 + 18 + h * 3 + i);
      }
  CHECK(std::vector<int>(memory.end() - 12, memory.end()) == std::vector<int>(12, -1));
}

TEST_CASE("KV cache: more tokens than its capacity are refused, and nothing is written") {
  parallel::ops::head_layout const layout{.heads = 1, .kv_heads = 1, .dim = 1};
  std::vector<int> memory(2 * 2, -1), packed(3 * 3, 7);
  parallel::kv_cache<int> cache{.rows = {memory.data(), {2, 2}}};
  parallel::reference::stream s;
  CHECK(test::message_of([&] {
          cache.append(s, layout, parallel::matrix_view<int const>(packed.data(), {3, 3}));
        }) == "the KV cache holds 2 tokens, but 3 are needed");
  CHECK(cache.length == 0);
  CHECK(memory == std::vector<int>(4, -1));
}

}  // namespace kv_cache_test
