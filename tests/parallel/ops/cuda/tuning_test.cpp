// The tuning of products and of attention as one text.
#include <doctest/doctest.h>


#include <parallel/ops/cuda/tuning.hpp>

namespace kernel_tuning_test {

using parallel::error;
using parallel::cuda::attention_tuning;
using parallel::cuda::kernel_tuning;
using parallel::cuda::matmul_tuning;

kernel_tuning example() {
  kernel_tuning out{matmul_tuning("products' library"), attention_tuning("attention's library")};
  out.products.set({.m = 7, .n = 5, .k = 3}, {.words = {4}, .guess = 1});
  out.attention.set({.batch = 1, .sequence = 8, .heads = 2, .key_heads = 2, .head_dim = 64}, 2);
  return out;
}

TEST_CASE("kernel_tuning: both tables survive being written and read, in the right order") {
  auto const text = to_text(example());
  CHECK(kernel_tuning::parse(text, "x") == example());
  CHECK(example().made_for() == "products' library, attention's library");
  auto const one = to_text(example().products), other = to_text(example().attention);
  CHECK(text == one + other);
  for (auto const& wrong : {one, other, one + one, other + one, text + one})
    CHECK_THROWS_AS(static_cast<void>(kernel_tuning::parse(wrong, "x")), error);
  CHECK_THROWS_WITH_AS(static_cast<void>(kernel_tuning::parse(text + "\n", "k.txt")),
                       "k.txt, line 4: more than two tables", error);
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_THROWS_AS(static_cast<void>(kernel_tuning::parse(text.substr(0, size), "x")), error);
}

TEST_CASE("kernel_tuning: merging keeps the existing choices of both tables") {
  auto one = example();
  kernel_tuning other{matmul_tuning("products' library"), attention_tuning("attention's library")};
  other.products.set({.m = 7, .n = 5, .k = 3}, {.guess = 9});
  other.products.set({.m = 8}, {.guess = 9});
  other.attention.set({.batch = 1, .sequence = 8, .heads = 2, .key_heads = 2, .head_dim = 64}, 0);
  other.attention.set({.batch = 2}, 1);
  one.merge(other);
  auto expected = example();
  expected.products.set({.m = 8}, {.guess = 9});
  expected.attention.set({.batch = 2}, 1);
  CHECK(one == expected);
  other.attention = attention_tuning("a newer library");
  CHECK_THROWS_AS(one.merge(other), error);
}

}  // namespace kernel_tuning_test
