#include <doctest/doctest.h>

#include <mpt/finetune/torch_permutation.hpp>
#include <vector>

TEST_CASE("torch_permutation: permutations are those of PyTorch's randperm") {
  using mpt::finetune::torch_permutation;
  using numbers = std::vector<std::size_t>;
  // torch.randperm(n, generator=torch.Generator().manual_seed(seed))
  CHECK(torch_permutation(10, 0U) == numbers{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(torch_permutation(10, 1U) == numbers{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
  CHECK(torch_permutation(7, 9176U) == numbers{2, 5, 3, 6, 1, 0, 4});
  CHECK(torch_permutation(12, 4294967301U) == numbers{11, 0, 9, 6, 10, 3, 4, 5, 8, 7, 1, 2});
  auto const large = torch_permutation(100000, 17);
  CHECK(large[0] == 76559);
  CHECK(large[50000] == 94180);
  CHECK(large[99999] == 27659);
  CHECK(torch_permutation(0, 3).empty());
}
