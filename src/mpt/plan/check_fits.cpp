#include <mpt/plan/check_fits.hpp>

#include <algorithm>
#include <utility>

#include <mpt/plan/by_source.hpp>

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
  return detail::by_source(rows, counts_of);
}

}  // namespace mpt
