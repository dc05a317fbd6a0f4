// Encoding many texts on several threads.
//
// Texts are handed out one by one (their lengths differ wildly), each thread has its own cache, and
// results lie in the order of the texts: they do not depend on the number of threads. The first
// error, by order of texts, is thrown after all threads have stopped.
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
