// known_keys: the names that a training configuration may have, and what they do.
#pragma once

#include <vector>

#include <mpt/config/report.hpp>

namespace mpt {

/// Every key a training configuration knows, sorted by name.
[[nodiscard]] std::vector<known_key> known_keys();

}  // namespace mpt
