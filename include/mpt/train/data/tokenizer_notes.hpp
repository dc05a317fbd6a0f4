// Notes for the user on a run's tokenizer: the data were made with another tokenizer, or it has no
// token that ends a text.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// One line per note; none where tokenizer.name is no tokenizer on this machine. Cost: the
/// tokenizer is read.
[[nodiscard]] std::vector<std::string> tokenizer_notes(data_config const& data);

}  // namespace mpt
