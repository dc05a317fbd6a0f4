#include <mpt/model/alibi.hpp>

#include <cmath>
#include <cstddef>

namespace mpt {

std::vector<float> alibi_slopes(int heads, double bias_max) {
  int power = 1;
  while (power < heads) power *= 2;
  auto const slope = [&](int i) { return static_cast<float>(std::exp2(-i * bias_max / power)); };
  std::vector<float> slopes;
  if (power == heads) {
    for (int i = 1; i <= power; ++i) slopes.push_back(slope(i));
    return slopes;
  }
  for (int i = 2; i <= power; i += 2) slopes.push_back(slope(i));
  for (int i = 1; i <= power; i += 2) slopes.push_back(slope(i));
  slopes.resize(static_cast<std::size_t>(heads));
  return slopes;
}

}  // namespace mpt
