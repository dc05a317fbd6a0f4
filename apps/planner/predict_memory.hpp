// predict_memory: the memory that the layout of a published row needs, by the program that ran it.
#pragma once

#include <vector>

#include <mpt/plan/check_fits.hpp>
#include <mpt/plan/check_rows.hpp>
#include <mpt/plan/published_row.hpp>
#include <mpt/plan/rank_memory.hpp>
#include <nlohmann/json.hpp>

namespace apps {

/// A row that says whether its layout fits, and its memory by pipeline rank.
struct predicted_fit {
  mpt::tried_layout row;
  std::vector<mpt::rank_memory> ranks;
  double available = 0;  ///< bytes of a device

  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// A row that says how many bytes were allocated at most, in bytes, and the memory of the rank that
/// it is of.
struct predicted_bytes {
  mpt::checked_row row;
  mpt::rank_memory rank;

  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// Whether the layout of a row fits, as it says and as it is predicted. Throws `error` with the
/// reason where that cannot be predicted.
[[nodiscard]] predicted_fit predict_fit(mpt::published_row const& row);

/// The bytes of the last rank of a row's run. Throws `error` with the reason where they cannot be
/// predicted.
[[nodiscard]] predicted_bytes predict_bytes(mpt::published_row const& row);

}  // namespace apps
