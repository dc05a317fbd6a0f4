#include <mpt/finetune/torch_permutation.hpp>

#include <numeric>
#include <random>
#include <utility>

namespace mpt::finetune {

std::vector<std::size_t> torch_permutation(std::size_t size, std::uint64_t seed) {
  constexpr std::size_t most = UINT32_MAX / 20;
  parallel::require(size < most, "an epoch of ", size, " examples; at most ", most - 1,
                    " can be shuffled");
  std::vector<std::size_t> out(size);
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < size; ++i) std::swap(out[i], out[i + generator() % (size - i)]);
  return out;
}

}  // namespace mpt::finetune
