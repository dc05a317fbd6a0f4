#include <mpt/finetune/torch_permutation.hpp>

#include <numeric>
#include <random>
#include <utility>

namespace mpt::finetune {

std::vector<std::size_t> torch_permutation(std::size_t size, std::uint64_t seed) {
  constexpr std::size_t size_limit = UINT32_MAX / 20;
  parallel::require(size < size_limit, "an epoch of ", size, " examples; at most ", size_limit - 1,
                    " can be shuffled");
  std::vector<std::size_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), std::size_t{0});
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < size; ++i)
    std::swap(permutation[i], permutation[i + generator() % (size - i)]);
  return permutation;
}

}  // namespace mpt::finetune
