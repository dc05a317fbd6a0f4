// check_rows: how right predictions are on a table of published steps.
//
// Other programs than ours ran those steps. A source, one program on one kind of GPU, may have one
// factor of efficiency: the geometric mean of measured over predicted seconds of at most five of
// its rows. They are those of the smallest checksums among the rows with an even one, from which
// the costs of programs come too (programs.yaml). Errors are stated on the rows with an odd one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mpt {

/// A row that could be predicted.
struct checked_row {
  std::string source;  ///< the program, without the version and file
  std::string gpu;
  std::string location;        ///< in the table
  double measured = 0;         ///< seconds
  double predicted = 0;        ///< seconds, before any factor
  std::uint64_t checksum = 0;  ///< of the row's text
};

/// What became of the rows of one source.
struct source_result {
  std::string source;
  std::string gpu;
  std::size_t rows = 0;      ///< predicted
  std::size_t fitted = 0;    ///< of them, those that the factor was fitted on
  std::size_t held_out = 0;  ///< of them, those that the errors are stated on
  double factor = 1;         ///< by which predictions are multiplied
  double mean_error = 0;     ///< relative, without sign
  double largest_error = 0;  ///< likewise
  std::string largest_at{};  ///< the location of the largest
  double tau = 1;            ///< Kendall's tau-b of predicted and measured, over all rows
};

/// The most rows on which a factor is fitted.
inline constexpr std::size_t most_fitted_rows = 5;

/// The results by source, those with most rows first. A source without rows of odd checksums has no
/// error. `fitted`: the most rows on which a factor is fitted; 0: predictions are not multiplied.
[[nodiscard]] std::vector<source_result> check_rows(std::vector<checked_row> const& rows,
                                                    std::size_t fitted = most_fitted_rows);

/// Kendall's tau-b of two lists of equal length: the share of pairs in the same order minus that in
/// the opposite order; 1 where no two values differ. Cost: quadratic.
[[nodiscard]] double kendall_tau(std::vector<double> const& a, std::vector<double> const& b);

/// The repository of a source such as "owner/name@commit:file".
[[nodiscard]] std::string program_of(std::string const& source);

}  // namespace mpt
