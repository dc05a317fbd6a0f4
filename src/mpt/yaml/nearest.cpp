#include <mpt/yaml/nearest.hpp>

#include <algorithm>
#include <vector>

namespace mpt {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t const change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

std::string nearest_name(std::string_view written, std::span<std::string const> names) {
  constexpr std::size_t longest = 100;
  std::string best;
  if (written.size() > longest) return best;
  std::size_t smallest_distance = longest;
  for (std::string const& name : names) {
    if (name.size() > longest) continue;
    std::size_t const distance = edit_distance(written, name);
    if (distance < smallest_distance && 2 * distance <= std::max(written.size(), name.size())) {
      best = name;
      smallest_distance = distance;
    }
  }
  return best;
}

}  // namespace mpt
