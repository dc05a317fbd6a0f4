#include <mpt/plan/check_rows.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <mpt/plan/by_source.hpp>

namespace mpt {
namespace {

/// The factor of efficiency of a source, and the number of rows that it is fitted on.
struct fitted_factor {
  double logarithm = 0;
  std::size_t rows = 0;
};

[[nodiscard]] fitted_factor factor_of(std::vector<checked_row> rows) {
  std::ranges::sort(rows, {}, &checked_row::checksum);
  fitted_factor out;
  for (auto const& r : rows)
    if (!r.has_costs && r.checksum % 2 == 0 && out.rows < most_fitted_rows) {
      out.logarithm += std::log(r.measured / r.predicted);
      ++out.rows;
    }
  if (out.rows > 0) out.logarithm /= static_cast<double>(out.rows);
  return out;
}

/// The mean factors of programs over the GPUs that they have rows of to fit.
[[nodiscard]] std::map<std::string, fitted_factor> factors_of_programs(
    std::vector<checked_row> const& rows) {
  std::map<std::string, fitted_factor> out;
  auto const add = [&](std::vector<checked_row> const& source) {
    auto const fitted = factor_of(source);
    auto& mean = out[source.front().source];
    if (fitted.rows > 0) ++mean.rows;
    mean.logarithm += fitted.logarithm;
    return source_result{};
  };
  static_cast<void>(detail::by_source(rows, add));
  for (auto& [program, mean] : out)
    mean.logarithm /= std::max<double>(1, static_cast<double>(mean.rows));
  return out;
}

[[nodiscard]] source_result result_of(std::vector<checked_row> const& rows,
                                      std::map<std::string, fitted_factor> const& programs) {
  source_result out{.source = rows.front().source, .gpu = rows.front().gpu, .rows = rows.size()};
  auto const fitted = factor_of(rows);
  out.fitted = fitted.rows;
  bool const has_costs = std::ranges::all_of(rows, &checked_row::has_costs);
  if (!has_costs)
    out.factor = std::exp(fitted.rows > 0 ? fitted.logarithm : programs.at(out.source).logarithm);
  std::vector<double> measured, predicted;
  for (auto const& r : rows) {
    measured.push_back(r.measured);
    predicted.push_back(r.has_costs ? r.predicted : r.predicted * out.factor);
    if (r.checksum % 2 == 0) continue;
    ++out.held_out;
    double const error = std::abs(predicted.back() / r.measured - 1);
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

std::vector<source_result> check_rows(std::vector<checked_row> const& rows) {
  auto const programs = factors_of_programs(rows);
  return detail::by_source(
      rows, [&](std::vector<checked_row> const& source) { return result_of(source, programs); });
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
