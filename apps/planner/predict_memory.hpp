// predict_memory: the memory that the layout of a published row needs, by the program that ran it.
#pragma once

#include <string>
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
  std::string notes;  ///< by which the program's memory was found
  mpt::rank_memory rank;

  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// Whether the layout of a row fits, as it says and as it is predicted. Throws `error` with the
/// reason where that cannot be predicted.
[[nodiscard]] predicted_fit predict_fit(mpt::published_row const& row);

/// The most bytes that the last rank of a functional test of Megatron allocates (megatron_row).
/// Where the row does not state its batch, and so not its GPUs, the number of data ranks is the one
/// with which parameters, gradients and states are nearest to mem_allocated_bytes, what is
/// allocated between steps. Throws `error` with the reason where the bytes cannot be predicted.
[[nodiscard]] predicted_bytes predict_bytes(nlohmann::json fields, std::string const& location);

}  // namespace apps
