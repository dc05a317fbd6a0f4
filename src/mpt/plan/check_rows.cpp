#include <mpt/plan/check_rows.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <mpt/plan/by_source.hpp>

namespace mpt {
namespace {

[[nodiscard]] source_result result_of(std::vector<checked_row> rows, std::size_t most_fitted) {
  source_result out{.source = rows.front().source, .gpu = rows.front().gpu, .rows = rows.size()};
  std::ranges::sort(rows, {}, &checked_row::checksum);
  double logarithm = 0;
  for (auto const& r : rows)
    if (r.checksum % 2 == 0 && out.fitted < most_fitted) {
      logarithm += std::log(r.measured / r.predicted);
      ++out.fitted;
    }
  if (out.fitted > 0) out.factor = std::exp(logarithm / static_cast<double>(out.fitted));
  std::vector<double> measured, predicted;
  for (auto const& r : rows) {
    measured.push_back(r.measured);
    predicted.push_back(r.predicted);
  }
  for (auto const& r : rows) {
    if (r.checksum % 2 == 0) continue;
    ++out.held_out;
    double const error = std::abs(r.predicted * out.factor / r.measured - 1);
    out.mean_error += error;
    if (error <= out.largest_error) continue;
    out.largest_error = error;
    out.largest_at = r.location;
  }
  if (out.held_out > 0) out.mean_error /= static_cast<double>(out.held_out);
  out.tau = kendall_tau(measured, predicted);
  return out;
}

}  // namespace

std::vector<source_result> check_rows(std::vector<checked_row> const& rows, std::size_t fitted) {
  return detail::by_source(rows, [&](std::vector<checked_row> members) {
    return result_of(std::move(members), fitted);
  });
}

double kendall_tau(std::vector<double> const& a, std::vector<double> const& b) {
  double concordant = 0, opposite = 0, tied_a = 0, tied_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      double const product = (a[i] - a[j]) * (b[i] - b[j]);
      if (product > 0) ++concordant;
      if (product < 0) ++opposite;
      if (product == 0 && a[i] != a[j]) ++tied_b;
      if (product == 0 && b[i] != b[j]) ++tied_a;
    }
  double const pairs =
      std::sqrt((concordant + opposite + tied_a) * (concordant + opposite + tied_b));
  return pairs == 0 ? 1 : (concordant - opposite) / pairs;
}

std::string program_of(std::string const& source) {
  auto const end = source.find_first_of("@,");
  return source.substr(0, end);
}

}  // namespace mpt
