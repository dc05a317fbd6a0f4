// Encoding many texts on several threads.
//
// Each thread takes one text at a time (lengths differ widely) and has its own cache. Results are
// in the order of the texts and do not depend on the number of threads. The first error, in the
// order of the texts, is thrown after all threads have stopped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The ids of every text, in the order of the texts, made by `threads` (at least 1) threads.
[[nodiscard]] std::vector<std::vector<std::int32_t>> encode_all(tokenizer const& source,
                                                                std::span<std::string const> texts,
                                                                int threads);

}  // namespace mpt
