#include <mpt/plan/check_fits.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace mpt {
namespace {

[[nodiscard]] fit_counts counts_of(std::vector<tried_layout> const& rows) {
  fit_counts out{.source = rows.front().source, .gpu = rows.front().gpu, .rows = rows.size()};
  for (auto const& r : rows) {
    if (r.checksum % 2 == 0) continue;
    bool const predicted = r.predicted_share <= 1;
    ++(r.fits ? (predicted ? out.fits_as_predicted : out.fits_unforeseen)
              : (predicted ? out.fails_unforeseen : out.fails_as_predicted));
  }
  return out;
}

}  // namespace

std::vector<fit_counts> check_fits(std::vector<tried_layout> const& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<tried_layout>> by_source;
  for (auto const& row : rows) by_source[{row.source, row.gpu}].push_back(row);
  std::vector<fit_counts> out;
  for (auto const& [name, members] : by_source) out.push_back(counts_of(members));
  std::ranges::stable_sort(out, std::ranges::greater(), &fit_counts::rows);
  return out;
}

}  // namespace mpt
