// check_fits: how right predictions of "fits" and "out of memory" are on a table of layouts that
// others tried.
//
// Other programs keep other memory for the same step (program_memory): what is known of it
// (program_memory.yaml) is fitted on the rows with an even checksum. The table of four is of the
// rows with an odd one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mpt {

/// A layout that somebody tried.
struct tried_layout {
  std::string source;  ///< the program, without the version and file
  std::string gpu;
  std::string location;        ///< in the table
  bool fits = false;           ///< as published
  double predicted_share = 0;  ///< bytes of the rank that needs most over the device's
  std::uint64_t checksum = 0;  ///< of the row's text
};

/// The table of four of a source's rows that are held out.
struct fit_counts {
  std::string source;
  std::string gpu;
  std::size_t rows = 0;
  std::size_t fits_as_predicted = 0;
  std::size_t fails_as_predicted = 0;
  std::size_t fits_unforeseen = 0;   ///< predicted out of memory, and fits
  std::size_t fails_unforeseen = 0;  ///< predicted to fit, and out of memory

  [[nodiscard]] std::size_t held_out() const {
    return fits_as_predicted + fails_as_predicted + fits_unforeseen + fails_unforeseen;
  }
  /// The share of the rows that are predicted right; 1 without rows.
  [[nodiscard]] double right() const {
    return held_out() == 0 ? 1
                           : static_cast<double>(fits_as_predicted + fails_as_predicted) /
                                 static_cast<double>(held_out());
  }
};

/// The results by source, those with most rows first.
[[nodiscard]] std::vector<fit_counts> check_fits(std::vector<tried_layout> const& rows);

}  // namespace mpt
